#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares docs/opset.txt with the same file in an earlier commit: check_opset.py COMMIT.

Files of graphs name ops with their versions. So a line of an op may change only if files of its old version
keep their meaning: by an addition at its end, or with a new version and an upgrade from the old one."""
import re
import subprocess
import sys

from check_common import ROOT, read

PATH = "docs/opset.txt"
LINE = re.compile(r"(?P<name>\S+) v(?P<version>\d+) \((?P<operands>.*)\) \{(?P<attrs>.*)\} -> (?P<rest>.*)")
HOW = 'CONTRIBUTING.md, "Change an op"'


class Op:
    def __init__(self, line):
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"this is not a line of an op: {line}")
        self.line = line
        self.name = found["name"]
        self.version = int(found["version"])
        self.operands = split(found["operands"])
        self.attrs = split(found["attrs"])
        self.results, *properties = found["rest"].split("; ")
        self.upgrades = {int(each[len("upgrades v"):]) for each in properties if each.startswith("upgrades v")}
        rest = [each for each in properties if not each.startswith("upgrades v")]
        shares = any(": " not in operand for operand in self.operands)
        self.dtypes = dtypes_of(rest.pop(0)) if shares and rest else set()
        self.properties = rest


def split(text):
    return text.split("; ") if text else []


def dtypes_of(text):
    return set(text.split(", "))


def ops_of(text):
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {op.name: op for op in map(Op, lines)}


def is_wider_operand(old, new):
    """Whether the operand takes all that it took: the same name and mark, and at least the same dtypes."""
    (old_name, _, old_dtypes), (new_name, _, new_dtypes) = old.partition(": "), new.partition(": ")
    if old_name != new_name or bool(old_dtypes) != bool(new_dtypes):
        return False
    return not old_dtypes or dtypes_of(old_dtypes) <= dtypes_of(new_dtypes)


def is_addition(old, new):
    """Whether each call that fits the old line means the same by the new line."""
    operands, attrs = len(old.operands), len(old.attrs)
    more_operands, more_attrs = new.operands[operands:], new.attrs[attrs:]
    is_open = bool(old.operands) and old.operands[-1].partition(": ")[0].endswith("...")
    return (len(new.operands) >= operands and all(map(is_wider_operand, old.operands, new.operands)) and
            all(each.partition(": ")[0].endswith("?") for each in more_operands) and
            not (is_open and more_operands) and
            new.attrs[:attrs] == old.attrs and all(" = " in each for each in more_attrs) and
            new.results == old.results and old.dtypes <= new.dtypes and new.properties == old.properties)


def fault_of(old, new):
    """What is wrong with the change of one op; None if nothing is."""
    if new is None:
        return (f"op '{old.name}' is gone, but files may call it. Keep its record, in the space \"internal\" and "
                f"with a lowering to the ops that replace it: {HOW}")
    shown = f"\n  - {old.line}\n  + {new.line}"
    if new.version < old.version:
        return f"the version of op '{old.name}' went back from {old.version} to {new.version}: versions only rise{shown}"
    lost = sorted(old.upgrades - new.upgrades)
    if lost:
        return (f"op '{old.name}' has lost its upgrade from version {lost[0]}, so files of that version cannot be "
                f"read any more. Keep it{shown}")
    missing = [version for version in range(old.version, new.version) if version not in new.upgrades]
    if missing:
        return (f"op '{old.name}' has version {new.version}, but no upgrade from version {missing[0]}. Add "
                f"{{{missing[0]}, function}} to `.upgrades` of its record: {HOW}{shown}")
    if new.version == old.version and old.line != new.line and not is_addition(old, new):
        return (f"the line of op '{old.name}' changed, but its version is still {old.version}, and files hold calls of "
                f"that version. Take the change back, or set `.version = {old.version + 1}` in its record and add "
                f"{{{old.version}, function}} to `.upgrades`, with a function that makes old calls new ones: {HOW}"
                f"{shown}")
    return None


def faults(old_text, new_text):
    old, new = ops_of(old_text), ops_of(new_text)
    found = (fault_of(op, new.get(name)) for name, op in old.items())
    return [fault for fault in found if fault is not None]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_opset.py COMMIT")
    shown = subprocess.run(["git", "-C", ROOT, "show", f"{sys.argv[1]}:{PATH}"], capture_output=True, text=True,
                           check=False)
    if shown.returncode != 0:  # a commit from before the file
        return 0
    found = faults(shown.stdout, read(PATH))
    for fault in found:
        print(f"{PATH}: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
