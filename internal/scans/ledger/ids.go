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

// ScanID is the id of a scan, and the partition that has its rows. It begins with inverted ticks: lists are newest first. The ids of a group's
// members, and of the scan that verifies another one, follow from that scan's id.
type ScanID string

// verificationSuffix ends the id of a scan that verifies another one.
const verificationSuffix = "-v"

// idForm matches what [NewScanID] returns, the id of the scan that verifies such a scan, and those of members.
var idForm = regexp.MustCompile(`^[0-9]{19}-[a-z2-7]{6}(-v)?(-[0-9]{5})?$`)

// StepID is the id of a step: a hash, 24 characters. An attempt's first step and its descendants have different ones.
type StepID string

// NewScanID returns a new scan's id; ids of later scans sort first.
func NewScanID(now time.Time) ScanID {
	return ScanID(key.Inverted(now) + "-" + strings.ToLower(rand.Text()[:6]))
}

// Valid reports whether the id has the form of a scan's id.
func (id ScanID) Valid() bool { return idForm.MatchString(string(id)) }

// Member returns the id of a group's member, from 1.
func (id ScanID) Member(number int) ScanID { return ScanID(fmt.Sprintf("%s-%05d", id, number)) }

// IsMember reports whether the scan is a member of a group.
func (id ScanID) IsMember() bool { _, _, ok := id.InGroup(); return ok }

// InGroup returns the group that a member is in, and its number there. It reports false for other scans.
func (id ScanID) InGroup() (group ScanID, number int, ok bool) {
	at := strings.LastIndexByte(string(id), '-')
	if at < 0 || len(id)-at != len("-00001") {
		return "", 0, false
	}
	number, err := strconv.Atoi(string(id[at+1:]))
	return id[:at], number, err == nil
}

// GroupOrSelf returns the group of a member, and the id itself of other scans.
func (id ScanID) GroupOrSelf() ScanID {
	if group, _, ok := id.InGroup(); ok {
		return group
	}
	return id
}

// Verification returns the id of the scan that verifies this one.
func (id ScanID) Verification() ScanID { return id + verificationSuffix }

// Verifies returns the scan that this one verifies. It reports false for scans that verify no other one.
func (id ScanID) Verifies() (ScanID, bool) {
	if of, ok := strings.CutSuffix(string(id), verificationSuffix); ok {
		return ScanID(of), true
	}
	return "", false
}

// partition is that of the scan's rows, as a query takes it.
func (id ScanID) partition() *string { return new(string(id)) }

// rows is the range of the scan's rows whose keys have a prefix.
func (id ScanID) rows(prefix string) key.Range { return key.WithPrefix(string(id), prefix) }
