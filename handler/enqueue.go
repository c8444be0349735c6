package main

import (
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/job"
	"tablesweep/internal/storage"
)

type enqueueOptions struct {
	sourceFlags
	jobFlags
	mapFlags
	queue             string
	queueConnection   connection
	message, encoding string
}

func (o *enqueueOptions) options() []option {
	return slices.Concat(o.sourceFlags.options(), o.jobFlags.options(), o.mapFlags.options(), []option{
		o.selectOption(),
		{"queue", fixed, &o.queue, nil, "the queue"},
		connect("queue-connection", &o.queueConnection, storage.HostConnection, "the queue's account, if not that of --connection"),
		{"message", fixed, &o.message, action.WholeRow, "template of a message, such as '{{json .RowKey}}'"},
		choose("encoding", fixed, &o.encoding, "base64, as the Functions host expects it, or none", "base64 or none", "base64", "none"),
	})
}

func (o *enqueueOptions) run(r *call) error {
	r.changes, r.dry = true, o.dryRun.on
	template, err := action.ParseTemplate(o.message)
	if err != nil {
		return usagef("--message: %w", err)
	}
	m, err := o.mapFlags.open()
	if err != nil {
		return err
	}
	from, err := o.source(r, true)
	if err != nil {
		return err
	}
	options := o.job(r, o.Rows, from)
	if options.Map = m; m != nil && o.dryRun.on {
		return o.mapFlags.show(r, options, o.json)
	}
	queue, err := o.openQueue(r)
	if err != nil {
		return err
	}
	j, err := job.Enqueue(r.ctx, options, action.Enqueue{Queue: queue, Message: template, Plain: o.encoding == "none"})
	if err == nil {
		r.announceChanges(queue.Address())
	}
	return o.runEach(r, j, err, enqueued, nil, nil)
}

func (o *enqueueOptions) openQueue(r *call) (*storage.Queue, error) {
	if o.queue == "" {
		return nil, usagef("--queue is missing")
	}
	if err := storage.CheckQueueName(o.queue); err != nil {
		return nil, usagef("--queue: %w", err)
	}
	account, err := o.openAccount(r, o.queueConnection.orElse(&o.connection))
	if err != nil {
		return nil, err
	}
	queue, err := account.Queue(o.queue)
	if err != nil {
		return nil, usagef("--queue: %w", err)
	}
	return queue, nil
}
