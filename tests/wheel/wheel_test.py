# SPDX-License-Identifier: Apache-2.0
"""The path of a new user: the wheel in a fresh virtual environment, the first training, Ctrl-C and resume, the same run
in C++. Without the network."""
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD, CMAKE = os.environ["WHEEL_BUILD"], os.environ["WHEEL_CMAKE"]
# Of a user: nothing that names this build.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WHEEL_", "ETUDE_", "CMAKE_"))}
CLEAN["ETUDE_KERNEL_CACHE"] = "off"
CLEAN["PYTHONFAULTHANDLER"] = "1"  # what finish() makes of a program that hangs
if "ETUDE_DATA" in os.environ:
    CLEAN["ETUDE_DATA"] = os.environ["ETUDE_DATA"]


def start(*command, **options):
    return subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN,
                            **options)  # fmt: skip


def finish(process, seconds=200):
    """What a program prints until it ends. One that does not end says where its threads are."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        out, errors = process.communicate()
        pytest.fail(f"{process.args} ran for {seconds} s\n{out[-4000:]}\n{errors[-8000:]}")


def run(*command, status=0, **options):
    """What a command prints; it has to end with this status."""
    process = start(*command, **options)
    out, errors = finish(process)
    assert process.returncode == status, f"{process.args}: {process.returncode}\n{out[-4000:]}\n{errors[-4000:]}"
    return out


def require_same_bytes(*paths):
    """Without a diff, which takes pytest minutes."""
    a, b = (path.read_bytes() for path in paths)
    different = sum(x != y for x, y in zip(a, b)) + abs(len(a) - len(b))
    assert different == 0, f"{different} of {len(a)} bytes of {paths[0].name} differ in {paths[1].name}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def wheel(folder):
    """A wheel of this build, made by the backend that pyproject.toml names."""
    settings = [f"cmake.source-dir={HERE / 'prebuilt'}", f"cmake.define.PREBUILT={BUILD}", "build.targets=all",
                f"build-dir={folder / 'build'}"]  # fmt: skip
    options = [word for setting in settings for word in ("--config-settings", setting)]
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check",
        *options, "-w", folder / "wheels", ROOT)  # fmt: skip
    return next((folder / "wheels").glob("etude-*.whl"))


@pytest.fixture(scope="module")
def python(folder, wheel):
    """The interpreter of a fresh environment with the wheel, and nothing else."""
    run(sys.executable, "-m", "venv", folder / "venv")
    found = folder / "venv" / "bin" / "python"
    run(found, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    return found


def test_wheel_has_package_library_headers_and_cmake_files(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    assert f"-cp{version}-cp{version}-linux_" in wheel.name
    for name in ("etude/__init__.py", "etude/__init__.pyi", "etude/py.typed", "etude/examples/lenet.py", "etude/bin/etude",
                 "etude/include/etude/etude.h", "etude/lib/cmake/Etude/EtudeConfig.cmake"):  # fmt: skip
        assert name in names, name
    assert [name for name in names if "/_core." in name and name.endswith(".so")]
    assert len([name for name in names if name.startswith("etude/lib/libetude.so")]) == 1
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert not [name for name in names if name.endswith((".cc", ".pyc")) or "/tests/" in name]


def test_package_is_whole(python, folder):
    text = run(python, "-c", "import sys, etude; print(etude.__file__); print('numpy' in sys.modules)", cwd=folder)
    assert text.splitlines() == [str(next(folder.glob("venv/lib/python3*/site-packages/etude/__init__.py"))), "False"]
    assert run(python, "-m", "etude", cwd=folder).startswith("etude 0.")
    assert "cpu:0" in run(python, "-m", "etude", "info", cwd=folder)
    program = python.parent / "etude"
    assert "\nmatmul " in run(program, "ops", "list")
    assert "operand" in run(python, "-m", "etude", "program", "ops", "show", "matmul")
    helped = run(python, "-c", "import etude as et; help(et.matmul)")
    assert "matmul(x, y, /, *, transpose_x=False, transpose_y=False)" in helped
    assert "Matrix product" in helped


def test_readme_program_trains(python, folder):
    """The 15 lines, for one epoch."""
    text = run(python, "-m", "etude.examples.lenet", "1", cwd=folder)
    assert float(text.rpartition("accuracy ")[2].split()[0]) > 0.75


def interrupted(python, folder, after):
    """Runs the program, and presses Ctrl-C after so many batches."""
    process = start(python, HERE / "first_run.py", folder / "run", folder / "resumed.safetensors")
    for _ in range(after):
        assert process.stdout.readline().startswith("batch ")
    process.send_signal(signal.SIGINT)
    rest, errors = finish(process)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    return rest.splitlines()


@pytest.fixture(scope="module")
def runs(python, folder):
    """A run without a break, and one that is interrupted twice."""
    run(python, HERE / "first_run.py", folder / "none", folder / "whole.safetensors")
    first = interrupted(python, folder, 7)
    assert first[-1].startswith("saved at (0, ")
    shutil.copytree(folder / "run", folder / "first_run")
    second = interrupted(python, folder, 20)
    assert second[-1].startswith("saved at (1, ")
    run(python, HERE / "first_run.py", folder / "run", folder / "resumed.safetensors")
    return first


def test_ctrl_c_and_resume_have_the_bits_of_a_whole_run(runs, folder):
    require_same_bytes(folder / "whole.safetensors", folder / "resumed.safetensors")


def test_cpp_resumes_the_same_run(python, folder, runs):
    cmake_dir = run(python, "-m", "etude", "--cmake-dir").strip()
    include_dir = run(python, "-m", "etude", "--include-dir").strip()
    assert os.path.exists(os.path.join(include_dir, "etude", "etude.h"))
    compiler = [f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}"] if "CXX" in os.environ else []
    run(CMAKE, "-S", HERE / "consumer", "-B", folder / "consumer", "-G", "Ninja", f"-DEtude_DIR={cmake_dir}", *compiler)
    run(CMAKE, "--build", folder / "consumer")
    assert run(folder / "consumer" / "version").startswith("etude 0.")
    text = run(folder / "consumer" / "resume", folder / "first_run", folder / "cpp.safetensors")
    step = runs[-1].rpartition(", ")[2].rstrip(")")
    assert text == f"resumes at epoch 0, batch {step}\n"
    require_same_bytes(folder / "whole.safetensors", folder / "cpp.safetensors")


def test_missing_library_is_explained(python, folder, tmp_path):
    """A machine without {fmt}: the same package, whose library needs another name of the same length."""
    installed = next(folder.glob("venv/lib/python3*/site-packages/etude"))
    shutil.copytree(installed, tmp_path / "etude", ignore=shutil.ignore_patterns("include", "*.a"))
    for path in [*glob.glob(str(tmp_path / "etude" / "_core.*.so")), *glob.glob(str(tmp_path / "etude" / "lib" / "*.so*"))]:
        content = pathlib.Path(path).read_bytes()
        pathlib.Path(path).write_bytes(content.replace(b"libfmt.so.9", b"libfmt.so.z"))
    done = subprocess.run([python, "-c", "import etude"], cwd=tmp_path, capture_output=True, text=True, env=CLEAN)
    assert done.returncode == 1
    assert "etude: libfmt.so.z: cannot open shared object file" in done.stderr
    assert "install it: apt-get install libfmt-dev" in done.stderr
    for path in glob.glob(str(tmp_path / "etude" / "_core.*.so")):
        whole = pathlib.Path(path).read_bytes()
        pathlib.Path(path).write_bytes(whole[:100])
        done = subprocess.run([python, "-c", "import etude"], cwd=tmp_path, capture_output=True, text=True, env=CLEAN)
        assert "The installation is damaged. Install the package again: pip install" in done.stderr
        pathlib.Path(path).write_bytes(whole)
        os.rename(path, path.replace(".cpython-", ".cpython-9"))
    done = subprocess.run([python, "-c", "import etude"], cwd=tmp_path, capture_output=True, text=True, env=CLEAN)
    assert "was not built for this Python, 3." in done.stderr and "pip install ." in done.stderr
    for path in glob.glob(str(tmp_path / "etude" / "_core.*.so")):
        os.remove(path)
    done = subprocess.run([python, "-c", "import etude"], cwd=tmp_path, capture_output=True, text=True, env=CLEAN)
    assert "not its compiled module" in done.stderr and "./dev python" in done.stderr


def test_sdist_is_whole(folder):
    """It has the sources of the library, which are above the folder python/, and its build begins."""
    code = "import sys, scikit_build_core.build as build; print(build.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", code, folder, cwd=ROOT).split()[-1]
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder)
    root = folder / name.removesuffix(".tar.gz")
    tracked = subprocess.run(["git", "ls-files", "etude", "cmake", "python/src", "python/etude", "tools"], cwd=ROOT,
                             capture_output=True, text=True)  # fmt: skip
    needed = [path for path in tracked.stdout.split() if not path.endswith(("_test.cc", "_bench.cc"))]
    if tracked.returncode == 0:  # an unpacked archive is no clone
        assert len(needed) > 1000
        assert [path for path in needed if not (root / path).exists()] == []
    assert not (root / "tests").exists() and not (root / "build").exists()
    defines = ["SKBUILD=2", "ETUDE_WITH_PYTHON=ON", "ETUDE_BUILD_TESTS=OFF", "ETUDE_BUILD_EXAMPLES=OFF", "ETUDE_PRECOMPILE=ON",
               f"Python_EXECUTABLE={sys.executable}"]  # fmt: skip
    text = run(CMAKE, "-S", root, "-B", root / "build" / "wheel", "-G", "Ninja", *(f"-D{define}" for define in defines))
    assert "Generating done" in text
    # Each source that the build names is there: this is the first step of ninja.
    run("ninja", "-C", root / "build" / "wheel", "-n", "etude_package", "etude_python")
