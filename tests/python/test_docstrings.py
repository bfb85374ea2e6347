"""Every public function and method of the package has an example in its docstring, and it runs."""
import doctest
import importlib
import inspect
import os
import pkgutil
import tempfile
import types
import unittest

from support import main

import ole

KINDS = (types.FunctionType, classmethod, staticmethod, property)


def modules():
    """The package and its public modules."""
    return ["ole"] + [f"ole.{found.name}" for found in pkgutil.iter_modules(ole.__path__) if found.name[0] != "_"]


def is_ours(thing):
    return f"{getattr(thing, '__module__', '')}.".startswith("ole.")


def public(module):
    """Name and object of the public functions and classes of a module, and of the methods and properties of these."""
    names = getattr(module, "__all__", None)
    for name in names or [name for name in vars(module) if not name.startswith("_")]:
        thing = getattr(module, name)
        defined = is_ours(thing) if names else getattr(thing, "__module__", None) == module.__name__
        if not defined or not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield name, thing
        for base in filter(is_ours, inspect.getmro(thing) if inspect.isclass(thing) else ()):
            for part, value in vars(base).items():
                if not part.startswith("_") and isinstance(value, KINDS):
                    yield f"{name}.{part}", value if isinstance(value, property) else getattr(thing, part)


class Docstrings(unittest.TestCase):
    def run_examples(self, name, thing):
        finder, runner, here = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(), os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # some write files
            try:
                for test in finder.find(thing, name, module=False, globs={}):
                    runner.run(test)
            finally:
                os.chdir(here)
        self.assertEqual(runner.failures, 0)

    def check(self, module, plots):
        for name, thing in public(module):
            if thing in self.seen:
                continue
            self.seen.append(thing)
            with self.subTest(of=f"{module.__name__}.{name}"):
                if not inspect.isclass(thing) and not isinstance(thing, property):
                    self.assertIn(">>>", thing.__doc__ or "", "there is no example")
                if plots or not name.endswith(".plot"):
                    self.run_examples(name, thing)

    def test_examples(self):
        try:
            import matplotlib

            matplotlib.use("Agg")
        except ImportError:
            matplotlib = None
        self.seen, missing = [], []
        for name in modules():
            try:
                module = importlib.import_module(name)
                if name == "ole.convert":
                    import torch  # noqa: F401
                list(public(module))
            except ImportError as error:  # of PyTorch, JAX or scikit-learn
                missing.append(f"{name}: {error}")
                continue
            self.check(module, matplotlib is not None)
        if matplotlib is not None:
            from matplotlib import pyplot

            pyplot.close("all")
        if missing:
            print("without what is missing here:", *missing, sep="\n")

    def test_all_modules_are_found(self):
        self.assertLessEqual({"ole", "ole.convert", "ole.estimators", "ole.jax", "ole.sentence_transformers",
                              "ole.tensorboard", "ole.torch"}, set(modules()))


if __name__ == "__main__":
    main()
