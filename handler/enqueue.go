package main

import (
	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/job"
	"tablesweep/internal/storage"
)

// enqueueOptions are the flags of the command enqueue.
type enqueueOptions struct {
	sourceFlags
	jobFlags
	mapFlags
	queue, queueConnection string
	message, encoding      string
}

func enqueueCommand() *cobra.Command {
	var o enqueueOptions
	c := command("enqueue", "Put a message into a queue for every row", o.run)
	flags := c.Flags()
	o.tableFlags.add(c)
	flags.StringVar(&o.queue, "queue", "", "the queue")
	addConnection(c, flags, &o.queueConnection, "queue-connection", "", "the queue's account (default the table's)")
	flags.StringVar(&o.message, "message", action.WholeRow, "template of a message; see above")
	addChoice(c, &o.encoding, "encoding", "base64, as the Functions host expects it, or none", "base64 or none", "base64", "none")
	o.rowFlags.add(c)
	o.addSelect(c)
	o.jobFlags.add(c)
	o.mapFlags.add(c)
	return c
}

func (o *enqueueOptions) run(c *cobra.Command) error {
	template, err := action.ParseTemplate(o.message)
	if err != nil {
		return usagef("--message: %w", err)
	}
	m, err := o.mapFlags.open(c)
	if err != nil {
		return err
	}
	if m != nil && o.dryRun.on {
		return usagef("--dry-run does not fit --map, --rename and --drop, which decide what is sent; --map-dry-run shows it")
	}
	from, err := o.source(c)
	if err != nil {
		return err
	}
	options := o.options(c, o.Rows, from)
	if options.Map = m; o.preview > 0 {
		return o.mapFlags.show(c, options, o.json)
	}
	queue, err := o.openQueue(c)
	if err != nil {
		return err
	}
	j, err := job.Enqueue(c.Context(), options, action.Enqueue{Queue: queue, Message: template, Plain: o.encoding == "none"})
	return o.each(c, j, err, "enqueued", nil, nil)
}

func (o *enqueueOptions) openQueue(c *cobra.Command) (*storage.Queue, error) {
	if o.queue == "" {
		return nil, usagef("--queue is missing")
	}
	if err := storage.CheckQueueName(o.queue); err != nil {
		return nil, usagef("--queue: %w", err)
	}
	connection, flag := o.queueConnection, "queue-connection"
	if connection == "" {
		connection, flag = o.connection, "connection"
	}
	account, err := o.openAccount(c, flag, connection)
	if err != nil {
		return nil, err
	}
	queue, err := account.Queue(o.queue)
	if err != nil {
		return nil, usagef("--queue: %w", err)
	}
	changed(c, queue.Address())
	return queue, nil
}
