"""Another program with the births of its tasks noted, as under `weft tasks` where nobody traces any.

Arguments: births.py, its C part or - for a plain run, the program, its arguments.
"""

import importlib.util
import runpy
import sys

source, library, program = sys.argv[1:4]
if library != "-":
    spec = importlib.util.spec_from_file_location("births", source)
    births = sys.modules["births"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(births)
    births.install(lambda task, mother: None, library)
    assert births.walker() is not None, "it is not C that notes them"
sys.argv = sys.argv[3:]
runpy.run_path(program, run_name="__main__")
