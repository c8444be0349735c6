package life

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
)

const (
	// drainTime is the time limit for draining the poison queues.
	drainTime = time.Minute
	// poisonHidden is how long drainPoison hides a message that it reads. If drainPoison does not delete the message,
	// the message is visible again after this time.
	poisonHidden = 10 * time.Minute
)

// drainPoison deletes the app's messages in the poison queues. After the last delivery of a message, the host moves
// the message to a poison queue. If the step of a deleted message is still pending, the step counts as lost, and
// Maintain sends a new message.
func (u *Upkeep) drainPoison(ctx context.Context) error {
	var errs error
	for _, q := range u.poison {
		if err := u.drain(ctx, q); err != nil && !storage.NotFound(err) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// WriteMaintained records the error of Maintain's last run, and the number of messages in the poison queues.
func (u *Upkeep) WriteMaintained(ctx context.Context, failure error) error {
	given := 0
	for _, q := range u.poison {
		n, err := q.Length(ctx)
		if err != nil && !storage.NotFound(err) {
			return err
		}
		given += n
	}
	return u.ledger.WriteMaintained(ctx, given, failure)
}

func (u *Upkeep) drain(ctx context.Context, q *storage.Queue) error {
	var errs error
	for errs == nil {
		messages, err := q.Get(ctx, storage.MaxGetMessages, poisonHidden)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, got := range messages {
			body, err := base64.StdEncoding.DecodeString(got.Text)
			if err == nil && scans.StartOf(body) == "" {
				_, err = scans.ParseMessage(body)
			}
			if problem.FateOf(err) != problem.Done { // for a message of a newer version, FateOf returns Done
				zerolog.Ctx(ctx).Error().Str("queue", q.Name()).Str("message", got.ID).Err(err).Msg("a message stays in the poison queue, because this app cannot handle it")
				continue
			}
			if err := q.Delete(ctx, got); err != nil && !storage.NotFound(err) {
				errs = errors.Join(errs, err)
			}
		}
	}
	return errs
}
