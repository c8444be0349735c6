package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"os/exec"
	"reflect"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job/progress"
)

// servant is a process that runs a script's commands, one after the other. A new process for each command would take twice the CPU. Each script has its own
// servant, with the script's directory and settings.
type servant struct {
	process *exec.Cmd
	orders  io.WriteCloser
	answers *json.Decoder
}

// order is a command for a servant.
type order struct {
	Dir       string
	Env, Args []string
}

// ordered is the outcome of an order.
type ordered struct {
	Out, Err []byte
	Code     int
}

// do runs a command with an empty stdin, and returns its exit code.
func (v *servant) do(ts *testscript.TestScript, args []string) (code int, err error) {
	if v.process == nil {
		if err := v.start(); err != nil {
			return 0, err
		}
	}
	all := reflect.ValueOf(ts).Elem().FieldByName("env") // testscript has no other way to list the settings
	o := order{Dir: ts.MkAbs("."), Args: args}
	for i := range all.Len() {
		o.Env = append(o.Env, all.Index(i).String())
	}
	var done ordered
	if err := errors.Join(json.NewEncoder(v.orders).Encode(o), v.answers.Decode(&done)); err != nil {
		return 0, err
	}
	_, outErr := ts.Stdout().Write(done.Out)
	_, errErr := ts.Stderr().Write(done.Err)
	return done.Code, errors.Join(outErr, errErr)
}

func (v *servant) start() (err error) {
	v.process = exec.Command("servant")
	v.process.Stderr = os.Stderr // for a panic's message
	if v.orders, err = v.process.StdinPipe(); err != nil {
		return err
	}
	answers, err := v.process.StdoutPipe()
	if err != nil {
		return err
	}
	v.answers = json.NewDecoder(answers)
	return v.process.Start()
}

// close ends the process, if there is one.
func (v *servant) close() {
	if v.orders != nil {
		v.orders.Close()
		_ = v.process.Wait()
	}
}

// servantMain is the servant's program.
func servantMain() {
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = os.Chdir(o.Dir)
		}
		os.Clearenv()
		for _, setting := range o.Env { // of several values of a setting, the last one counts
			name, value, _ := strings.Cut(setting, "=")
			err = errors.Join(err, os.Setenv(name, value))
		}
		if err == nil {
			err = answers.Encode(o.run())
		}
		if err != nil {
			panic(err)
		}
	}
}

// run does the same as main, except for signals and terminals.
func (o order) run() ordered {
	var out, errText bytes.Buffer
	errOut := lines.NewPlainWriter(&errText)
	log.SetOutput(withoutAnswers{errOut})
	root := rootCommand()
	root.SetArgs(o.Args)
	root.SetIn(strings.NewReader(""))
	root.SetOut(&out)
	root.SetErr(errOut)
	code := run(context.Background(), root, shared{meter: progress.New(&errText), second: context.Background()})
	return ordered{out.Bytes(), errText.Bytes(), code}
}
