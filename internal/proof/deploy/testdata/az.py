# Parses commands like az, without running them. az's own Python runs this program, which reads
# {"commands": [[…]], "query": …, "documents": […]} and prints {"refused": […], "unknown": […],
# "answers": […]}. Commands for Flex Consumption are unknown to an az before 2.60.
import contextlib, io, json, os, sys, tempfile

os.environ["AZURE_CONFIG_DIR"] = tempfile.mkdtemp()
os.environ["AZURE_CORE_COLLECT_TELEMETRY"] = "no"

import jmespath
from azure.cli.core import __version__, get_default_cli
from azure.cli.core.commands import AzCliCommandInvoker as Invoker

Invoker._run_jobs_serially = lambda self, jobs, ids: ([], [])
Invoker._validate_cmd_level = Invoker._validate_arg_level = lambda *args: None

old = tuple(int(n) for n in __version__.split(".")[:2]) < (2, 60)
given = json.load(sys.stdin)
result = {"refused": [], "unknown": [], "answers": []}
for args in given["commands"]:
    if old and ("--flexconsumption-location" in args or "list-flexconsumption-runtimes" in args):
        result["unknown"].append(" ".join(args))
        continue
    if "--query" in args: # az would apply the query to an answer, but there is none
        i = args.index("--query")
        jmespath.compile(args[i + 1])
        args = args[:i] + args[i + 2 :]
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        try:
            code = get_default_cli().invoke(args, out_file=output)
        except SystemExit as e:
            code = e.code
    if code:
        result["refused"].append(" ".join(args) + ": " + output.getvalue())
for document in given["documents"]:
    result["answers"].append(jmespath.search(given["query"], document))
json.dump(result, sys.stdout)
