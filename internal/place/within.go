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

// No export may begin within another one, or around one, because a reader of the outer export would find the inner one's objects.
// The parts of an export of many tables are an exception: they are within that export, which has checked all of them.

// markers are the names of the objects that mark a place as an export's.
var markers = []string{TablesName, tablesClaimName, ManifestName, ClaimName}

// formatPrefix is the start of the content of these objects. Other programs may have objects of the same names.
const formatPrefix = `{"format":"tablesweep-`

// hasMarker reports whether an object exists that marks the place as an export's.
func hasMarker(ctx context.Context, o Objects, name string) (bool, error) {
	begins, err := o.Get(ctx, name, 0, int64(len(formatPrefix)))
	if _, local := o.(Directory); local || errors.Is(err, fs.ErrNotExist) || storage.Gone(err) {
		err = nil // if this user can't read a directory above, neither can this user's programs
	}
	return string(begins) == formatPrefix, err
}

// Within returns the object that shows that a place lies within an export, or "".
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

// exportInside returns the name of an object that proves that another export lies within a place, or "".
func exportInside(ctx context.Context, o Objects) (string, error) {
	var names []string
	err := o.List(ctx, "", func(name string, _ int64) error {
		if i := strings.LastIndexByte(name, '/'); i > 0 && slices.Contains(markers, name[i+1:]) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil && !storage.Gone(err) { // of the container
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

// checkApart fails with [ErrTaken] if a place lies within another export or around one. An export within the place first gets time to yield.
func checkApart(ctx context.Context, to Objects, patience time.Duration) error {
	if err := Outside(ctx, to); err != nil {
		return err
	}
	for pause := patience / 16; ; pause *= 2 {
		name, err := exportInside(ctx, to)
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

// patience is about how long an export waits for an export within it to yield. Yielding takes a few requests.
const patience = 4 * time.Second

// Take puts a claim like [PutClaim], and then checks whether another export has begun at the same moment around the place or
// within it. Each export checks after its own claim, so at least one of any two sees the other, and they never both continue. The
// inner one yields at once: it withdraws its claim. The outer one waits until the inner claim is gone, and yields if that takes
// too long. The error of the one that yields is [ErrTaken]. After any other error, Take tries briefly to withdraw the claim.
//
// The function begun, which may be nil, reports whether another process has begun the export meanwhile. If a claim exists
// already, its author has died or is faster. Take gives that author time to begin the export. If it begins, the claim stays.
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
	switch err = checkApart(ctx, to, patience); {
	case errors.Is(err, ErrTaken):
		err = cmp.Or(withdraw(ctx, to, c), err)
	case err != nil && made:
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, withdraw(short, to, c))
	}
	return err
}
