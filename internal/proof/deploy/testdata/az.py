# Parses commands as az does, without running them: run by az's own Python, it reads
# {"commands": [[…]], "query": …, "documents": […]} and prints {"refused": […], "unknown": […],
# "answers": […]}. Unknown are commands for Flex Consumption to an az before 2.60.
import contextlib, io, json, os, sys, tempfile

os.environ["AZURE_CONFIG_DIR"] = tempfile.mkdtemp()
os.environ["AZURE_CORE_COLLECT_TELEMETRY"] = "no"

import jmespath
from azure.cli.core import __version__, get_default_cli
from azure.cli.core.commands import AzCliCommandInvoker as Invoker

Invoker._run_jobs_serially = lambda self, jobs, ids: ([], [])
Invoker._validate_cmd_level = Invoker._validate_arg_level = lambda *args: None

old = tuple(int(n) for n in __version__.split(".")[:2]) < (2, 60)
asked = json.load(sys.stdin)
result = {"refused": [], "unknown": [], "answers": []}
for args in asked["commands"]:
    if old and ("--flexconsumption-location" in args or "list-flexconsumption-runtimes" in args):
        result["unknown"].append(" ".join(args))
        continue
    if "--query" in args: # which az would apply to an answer; there is none
        i = args.index("--query")
        jmespath.compile(args[i + 1])
        args = args[:i] + args[i + 2 :]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            code = get_default_cli().invoke(args, out_file=said)
        except SystemExit as e:
            code = e.code
    if code:
        result["refused"].append(" ".join(args) + ": " + said.getvalue())
for document in asked["documents"]:
    result["answers"].append(jmespath.search(asked["query"], document))
json.dump(result, sys.stdout)
