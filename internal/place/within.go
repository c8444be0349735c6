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

// An export must not begin within another export, or around one, because a reader of the outer export would find the
// objects of the inner export. An export of many tables is an exception, because it contains the exports of single
// tables. Its place is checked only when it begins, not when the exports in it begin.

// markers are the names of the objects that mark a place as an export.
var markers = []string{TablesName, tablesClaimName, ManifestName, ClaimName}

// formatPrefix is the beginning of each marker's content. Objects of other programs may have the same names, but not
// this content.
const formatPrefix = `{"format":"tablesweep-`

func hasMarker(ctx context.Context, o Objects, name string) (bool, error) {
	begins, err := o.Get(ctx, name, 0, int64(len(formatPrefix)))
	if _, local := o.(Directory); local || errors.Is(err, fs.ErrNotExist) || storage.Gone(err) {
		err = nil // if this user cannot read a surrounding directory, the directory contains no export of this user
	}
	return string(begins) == formatPrefix, err
}

// EnclosingExport returns the name of an object that marks the export within which a place lies. If there is no such export, it returns
// "".
func EnclosingExport(ctx context.Context, o Objects) (string, error) {
	for _, above := range o.Parents() {
		for _, name := range markers {
			if is, err := hasMarker(ctx, above, name); is || err != nil {
				return above.Address() + "/" + name, err
			}
		}
	}
	return "", nil
}

// If another export lies within a place, exportInside returns the name of an object that marks the inner export. Otherwise, it returns "".
func exportInside(ctx context.Context, o Objects) (string, error) {
	var names []string
	err := o.List(ctx, "", func(name string, _ int64) error {
		if i := strings.LastIndexByte(name, '/'); i > 0 && slices.Contains(markers, name[i+1:]) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil && !storage.Gone(err) {
		return "", err
	}
	for _, name := range names {
		if is, err := hasMarker(ctx, o, name); is || err != nil {
			return name, err
		}
	}
	return "", nil
}

// CheckOutside fails with [ErrTaken] if a place lies within another export.
func CheckOutside(ctx context.Context, to Objects) error {
	name, err := EnclosingExport(ctx, to)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: it lies within another export; %s belongs to that export", ErrTaken, name)
	}
	return err
}

// checkApart fails with [ErrTaken] if a place lies within another export, or contains one. If the place contains an export, checkApart first
// waits until that export withdraws its claim, but not longer than the given time.
func checkApart(ctx context.Context, to Objects, patience time.Duration) error {
	if err := CheckOutside(ctx, to); err != nil {
		return err
	}
	for pause := patience / 16; ; pause *= 2 {
		name, err := exportInside(ctx, to)
		if err != nil || name == "" {
			return err
		}
		if pause <= 0 || pause >= patience {
			return fmt.Errorf("%w: it contains %s, which belongs to another export", ErrTaken, name)
		}
		if !task.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// patience is the approximate time that an export waits until an export inside it yields. A few seconds
// are enough, because yielding takes only a few requests.
const patience = 4 * time.Second

// Take puts a claim, as [PutClaim] does. Then it checks whether a place that contains this place, or lies in it, has another export. Two such exports
// may begin at the same moment, but each puts its claim before it checks. So at least one of them finds the other, and they never both continue. The
// inner export yields immediately: it withdraws its claim. The outer export waits until the inner claim is gone, and yields if this takes too long.
// The export that yields fails with [ErrTaken]. After any other error, Take tries briefly to withdraw the claim.
//
// The function `begun`, which may be nil, reports whether another process has begun the same export. If the claim already
// exists, another process has put it. That process has died, or will soon begin the export, so Take waits a while. If
// the export begins, Take keeps the claim.
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
