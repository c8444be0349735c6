package emulator

import (
	"cmp"
	"strings"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/local/emulator/refusal"
)

// lease is a blob's lease. The zero value means that there is no lease. https://learn.microsoft.com/rest/api/storageservices/lease-blob
type lease struct {
	id       string
	duration time.Duration // or endless
	ends     time.Time     // when the lease expires; for a broken lease, when the break ends; zero for never
	broken   bool
}

const endless = -time.Second // the duration of a lease that never expires

// state returns the service's name for the lease's state.
func (l lease) state(now time.Time) string {
	over := !l.ends.IsZero() && !now.Before(l.ends)
	switch {
	case l.id == "":
		return "available"
	case l.broken && over:
		return "broken"
	case l.broken:
		return "breaking"
	case over:
		return "expired"
	}
	return "leased"
}

func (l lease) locked(now time.Time) bool {
	state := l.state(now)
	return state == "leased" || state == "breaking"
}

// allows returns an error if a request must not read or write the blob. id is the request's lease id, or "".
func (l lease) allows(id string, write bool, now time.Time) error {
	switch {
	case l.locked(now) && id == "" && write:
		return refusal.New("LeaseIdMissing", "There is currently a lease on the blob and no lease ID was specified in the request.")
	case id == "" || l.locked(now) && strings.EqualFold(id, l.id):
		return nil
	case l.locked(now):
		return refusal.New("LeaseIdMismatchWithBlobOperation", "The lease ID specified did not match the lease ID for the blob.")
	case l.id == "":
		return refusal.New("LeaseNotPresentWithBlobOperation", "There is currently no lease on the blob.")
	}
	return refusal.New("LeaseLost", "A lease ID was specified, but the lease for the blob has expired.")
}

// change returns the lease after an action. For the action "acquire", the arguments `proposed` and `duration` describe the
// new lease. For the action "break", the argument `period` is the break period, or negative if the request has none.
func (l lease) change(action, id, proposed string, duration, period time.Duration, now time.Time) (lease, error) {
	refuse := func(code, message string) (lease, error) { return l, refusal.New(code, message) }
	state, mine := l.state(now), l.id != "" && strings.EqualFold(l.id, map[bool]string{true: proposed, false: id}[action == "acquire"])
	switch {
	case action == "acquire" && state == "breaking" && mine:
		return refuse("LeaseIsBreakingAndCannotBeAcquired", "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.")
	case action == "acquire" && (state == "breaking" || state == "leased" && !mine):
		return refuse("LeaseAlreadyPresent", "There is already a lease present.")
	case action == "acquire":
		l = lease{id: cmp.Or(proposed, uuid.NewString()), duration: duration}
	case action == "break" && l.id == "":
		return refuse("LeaseNotPresentWithLeaseOperation", "There is currently no lease on the blob.")
	case action == "break":
		soon, never := now.Add(max(0, period)), l.ends.IsZero()
		if !l.locked(now) {
			soon = now
		} else if !never && (period < 0 || soon.After(l.ends)) {
			soon = l.ends
		}
		l.broken, l.ends = true, soon
		return l, nil
	case !mine:
		return refuse("LeaseIdMismatchWithLeaseOperation", "The lease ID specified did not match the lease ID for the blob.")
	case action == "release":
		return lease{}, nil
	case l.broken:
		return refuse("LeaseIsBrokenAndCannotBeRenewed", "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.")
	}
	if l.duration != endless {
		l.ends = now.Add(l.duration)
	}
	return l, nil
}

// headers returns the headers that describe the lease. prefix is the beginning of their names.
func (l lease) headers(now time.Time, prefix string) [][2]string {
	headers := [][2]string{{prefix + "State", l.state(now)}, {prefix + "Status", "unlocked"}}
	if l.locked(now) {
		headers[1][1] = "locked"
	}
	if headers[0][1] == "leased" {
		headers = append(headers, [2]string{prefix + "Duration", map[bool]string{true: "infinite", false: "fixed"}[l.duration == endless]})
	}
	return headers
}
