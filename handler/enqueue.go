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
	return c
}

func (o *enqueueOptions) run(c *cobra.Command) error {
	template, err := action.ParseTemplate(o.message)
	if err != nil {
		return usagef("--message: %w", err)
	}
	from, err := o.source(c)
	if err != nil {
		return err
	}
	queue, err := o.openQueue(c)
	if err != nil {
		return err
	}
	j, err := job.Enqueue(c.Context(), o.options(c, o.Rows, from), action.Enqueue{Queue: queue, Message: template, Plain: o.encoding == "none"})
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
