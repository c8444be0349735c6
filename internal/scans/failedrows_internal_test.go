package scans

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
)

// TestFailedRowsHaveAMaximum: a step records at most a thousand failed rows, and fewer if they are long.
func TestFailedRowsHaveAMaximum(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	failed := make([]action.Failure, 3000)
	for i := range failed {
		failed[i] = action.Failure{Key: key.Key{Partition: fmt.Sprint(i)}, Reason: "<img onerror>"}
	}
	packed, kept := packFailed(failed, KeptRows{})
	read, err := ParseFailed(packed)
	if rows := read.Rows; err != nil || kept != maxFailedRows || int64(len(rows)) != kept || rows[7] != (FailedRow{"7", "", "<img onerror>"}) {
		t.Errorf("packed %d failed rows, and read %d of them, %v; want both %d", kept, len(rows), err, maxFailedRows)
	}
	failed = failed[:300]
	random, long := rand.NewChaCha8([32]byte{}), make([]byte, maxReason/2)
	for i := range failed {
		_, _ = random.Read(long) // never fails
		failed[i].Reason = hex.EncodeToString(long)
	}
	if packed, kept = packFailed(failed, KeptRows{}); kept == 0 || kept >= int64(len(failed)) || len(packed) > ledger.MaxFailed {
		t.Errorf("packed %d of %d long rows in %d bytes, want fewer rows than that and at most %d bytes", kept, len(failed), len(packed), ledger.MaxFailed)
	}
}
