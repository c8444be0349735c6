package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// A process with steps in hand writes a beat every few seconds: a row of its own in the
// partition "beats". It has Version, and in Steps "SCAN/STEP" for each of the steps, with spaces between them.
const (
	beatsPartition = "beats"
	beatVersion    = 1
	maxBeatSteps   = 600 // a string takes 32 K characters, both ids together have 51
)

// Beat names the steps that a process had in hand when it wrote the beat.
type Beat struct {
	Process string
	Steps   []Held
	At      time.Time     // by the service's clock
	Age     time.Duration // by the service's clock

	etag string
}

// Held names a step in hand by its id and its scan's.
type Held struct{ Scan, Step string }

// Beat writes a process's beat.
func (l *Ledger) Beat(ctx context.Context, process string, steps []Held) error {
	var names []string
	for _, s := range steps[:min(len(steps), maxBeatSteps)] {
		names = append(names, s.Scan+"/"+s.Step)
	}
	err := l.table.Write(ctx, storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key: key.Key{Partition: beatsPartition, Row: process},
		Properties: []storage.Property{
			storage.Int64Property("Version", beatVersion),
			storage.StringProperty("Steps", strings.Join(names, " ")),
		},
	}})
	if err != nil {
		return fmt.Errorf("record what is in hand: %w", err)
	}
	return nil
}

// Beats returns the last beat of each process. A beat of another version names no steps.
func (l *Ledger) Beats(ctx context.Context) ([]Beat, error) {
	var beats []Beat
	err := l.table.All(ctx, storage.Query{Range: key.WithPrefix(beatsPartition, "")}, func(p storage.Page) error {
		for _, e := range p.Entities {
			b := Beat{Process: e.Key.Row, At: e.Timestamp, Age: p.Date.Sub(e.Timestamp), etag: e.ETag}
			if e.Int("Version") == beatVersion {
				for name := range strings.FieldsSeq(e.Get("Steps")) {
					scan, step, _ := strings.Cut(name, "/")
					b.Steps = append(b.Steps, Held{scan, step})
				}
			}
			beats = append(beats, b)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what is in hand: %w", err)
	}
	return beats, nil
}

// ForgetBeat removes a beat, unless its process has written another since.
func (l *Ledger) ForgetBeat(ctx context.Context, b Beat) error {
	err := l.table.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: b.etag, Entity: storage.Entity{Key: key.Key{Partition: beatsPartition, Row: b.Process}}})
	return unlessOvertaken(err, "forget process "+b.Process)
}
