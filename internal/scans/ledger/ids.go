package ledger

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
)

// ScanID is the id of a scan, and the key of the partition that contains the scan's rows. The id begins with inverted ticks, so lists are
// newest first. A member's id is derived from its group's id, and a verification's id is derived from the id of the verified scan.
type ScanID string

// verificationSuffix ends the id of a scan that verifies another one.
const verificationSuffix = "-v"

// idForm matches ids that [NewScanID] returns, and the ids of their verifications and members.
var idForm = regexp.MustCompile(`^[0-9]{19}-[a-z2-7]{6}(-v)?(-[0-9]{5})?$`)

// StepID is the id of a step: a hash of 24 characters. No two steps of an attempt have the same id.
type StepID string

// NewScanID returns a new scan's id. Ids of later scans sort first.
func NewScanID(now time.Time) ScanID {
	return ScanID(key.Inverted(now) + "-" + strings.ToLower(rand.Text()[:6]))
}

// Valid reports whether the id has the form of a scan's id.
func (id ScanID) Valid() bool { return idForm.MatchString(string(id)) }

// Member returns the id of a group's member. Numbers begin at 1.
func (id ScanID) Member(number int) ScanID { return ScanID(fmt.Sprintf("%s-%05d", id, number)) }

// IsMember reports whether the scan is a member of a group.
func (id ScanID) IsMember() bool { _, _, ok := id.InGroup(); return ok }

// InGroup returns a member's group, and its number in the group. It reports false for other scans.
func (id ScanID) InGroup() (group ScanID, number int, ok bool) {
	at := strings.LastIndexByte(string(id), '-')
	if at < 0 || len(id)-at != len("-00001") {
		return "", 0, false
	}
	number, err := strconv.Atoi(string(id[at+1:]))
	return id[:at], number, err == nil
}

// GroupOrSelf returns a member's group. For any other scan, it returns the scan's own id.
func (id ScanID) GroupOrSelf() ScanID {
	if group, _, ok := id.InGroup(); ok {
		return group
	}
	return id
}

// Verification returns the id of the scan that verifies this one.
func (id ScanID) Verification() ScanID { return id + verificationSuffix }

// Verifies returns the scan that this one verifies. It reports false if this scan is not a verification.
func (id ScanID) Verifies() (ScanID, bool) {
	if of, ok := strings.CutSuffix(string(id), verificationSuffix); ok {
		return ScanID(of), true
	}
	return "", false
}

// partition returns the partition of the scan's rows, for a query.
func (id ScanID) partition() *string { return new(string(id)) }

// rows returns the range of the scan's rows whose keys have a prefix.
func (id ScanID) rows(prefix string) key.Range { return key.WithPrefix(string(id), prefix) }
