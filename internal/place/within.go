package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// No export begins within another one, or around one: what reads the outer one would meet the inner one. The tables of an export of many stand
// within that, which has looked for all of them.

// markers are the names of the objects that say whose a place is.
var markers = []string{TablesName, tablesClaimName, ManifestName, ClaimName}

// formatPrefix begins what they have. Others may have objects of such names.
const formatPrefix = `{"format":"tablesweep-`

// hasMarker reports whether an object is there that says that the place is an export's.
func hasMarker(ctx context.Context, o Objects, name string) (bool, error) {
	begins, err := o.Get(ctx, name, 0, int64(len(formatPrefix)))
	if _, local := o.(Directory); local || errors.Is(err, fs.ErrNotExist) || storage.Gone(err) {
		err = nil // what this user can't read of the directories above, nothing meets that he runs
	}
	return string(begins) == formatPrefix, err
}

// Within returns which object says that a place lies within an export; "" if none does.
func Within(ctx context.Context, o Objects) (string, error) {
	for _, above := range o.Above() {
		for _, name := range markers {
			if is, err := hasMarker(ctx, above, name); is || err != nil {
				return above.Address() + "/" + name, err
			}
		}
	}
	return "", nil
}

// around returns which object says that an export stands within a place; "" if none does.
func around(ctx context.Context, o Objects) (string, error) {
	var names []string
	err := o.List(ctx, "", func(name string, _ int64) error {
		if i := strings.LastIndexByte(name, '/'); i > 0 && slices.Contains(markers, name[i+1:]) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil && !storage.Gone(err) { // the container
		return "", err
	}
	for _, name := range names {
		if is, err := hasMarker(ctx, o, name); is || err != nil {
			return name, err
		}
	}
	return "", nil
}

// Outside fails with [ErrTaken] if a place lies within another export.
func Outside(ctx context.Context, to Objects) error {
	name, err := Within(ctx, to)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: it lies within another export, which has %s", ErrTaken, name)
	}
	return err
}

// apart fails with [ErrTaken] if a place lies within another export, or another one within it. In the latter case, it first waits whether that goes.
func apart(ctx context.Context, to Objects, patience time.Duration) error {
	if err := Outside(ctx, to); err != nil {
		return err
	}
	for pause := patience / 16; ; pause *= 2 {
		name, err := around(ctx, to)
		if err != nil || name == "" {
			return err
		}
		if pause <= 0 || pause >= patience {
			return fmt.Errorf("%w: another export lies within it, which has %s", ErrTaken, name)
		}
		if !task.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// patience bounds how long an export waits, about, until one within it has yielded. That takes a few requests.
const patience = 4 * time.Second

// Take puts a claim as [PutClaim] does, and then looks whether another export has begun at the same moment around the place or within it. Each
// looks behind its own claim, so of any two, one sees the other: both never go on. The inner one yields at once: it takes its claim back. The outer
// one waits for that, and yields as well if it does not see it in time. The error is [ErrTaken] then. With any other error, the claim goes if that can be done soon.
//
// begun, unless nil, reports whether another process has begun the export meanwhile. A claim that is there was made by one that has died, or
// that is faster: it gets time to begin, and then its claim stays.
func Take(ctx context.Context, to Objects, c Claim, begun func() (bool, error)) error {
	made, err := putClaim(ctx, to, c)
	if err != nil {
		return err
	}
	if !made && begun != nil {
		if !task.Sleep(ctx, patience) {
			return ctx.Err()
		}
		if is, err := begun(); is || err != nil {
			return err
		}
	}
	switch err = apart(ctx, to, patience); {
	case errors.Is(err, ErrTaken):
		err = cmp.Or(withdraw(ctx, to, c), err)
	case err != nil && made:
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, withdraw(short, to, c))
	}
	return err
}
