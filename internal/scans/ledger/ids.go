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

// ScanID is the id of a scan, and the key of its partition. It begins with inverted ticks, so lists are newest first.
// The id of a member begins with the id of its group. The id of a verification begins with the id of the verified scan.
type ScanID string

// verificationSuffix ends the id of a verification.
const verificationSuffix = "-v"

// idForm matches the ids of scans, including verifications and members.
var idForm = regexp.MustCompile(`^[0-9]{19}-[a-z2-7]{6}(-v)?(-[0-9]{5})?$`)

// StepID is the id of a step: a hash of 24 characters. No two steps of an attempt have the same id.
type StepID string

// NewScanID returns a new scan's id.
func NewScanID(now time.Time) ScanID {
	return ScanID(key.Inverted(now) + "-" + strings.ToLower(rand.Text()[:6]))
}

// Valid reports whether the id has the form of a scan's id.
func (id ScanID) Valid() bool { return idForm.MatchString(string(id)) }

// Member returns the id of a group's member. Numbers begin at 1.
func (id ScanID) Member(number int) ScanID { return ScanID(fmt.Sprintf("%s-%05d", id, number)) }

// IsMember reports whether the scan is a member of a group.
func (id ScanID) IsMember() bool { _, _, ok := id.InGroup(); return ok }

// InGroup returns a member's group, and the member's number in the group. If the scan is not a member, ok is false.
func (id ScanID) InGroup() (group ScanID, number int, ok bool) {
	at := strings.LastIndexByte(string(id), '-')
	if at < 0 || len(id)-at != len("-00001") {
		return "", 0, false
	}
	number, err := strconv.Atoi(string(id[at+1:]))
	return id[:at], number, err == nil
}

// GroupOrSelf returns a member's group, or any other scan's own id.
func (id ScanID) GroupOrSelf() ScanID {
	if group, _, ok := id.InGroup(); ok {
		return group
	}
	return id
}

// Verification returns the id of the scan's verification.
func (id ScanID) Verification() ScanID { return id + verificationSuffix }

// Verifies returns the id of the verified scan. If id is not the id of a verification, Verifies reports false.
func (id ScanID) Verifies() (ScanID, bool) {
	if of, ok := strings.CutSuffix(string(id), verificationSuffix); ok {
		return ScanID(of), true
	}
	return "", false
}

func (id ScanID) partition() *string { return new(string(id)) }

func (id ScanID) rows(prefix string) key.Range { return key.WithPrefix(string(id), prefix) }
