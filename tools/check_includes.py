#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a name of the standard library, of {fmt}, or of a precompiled header of Etude, whose header a file
of the library, or of tools/, does not include.

Precompiled headers hide that from a build (cmake/EtudePrecompile.cmake). A file includes what its own
headers include, so far as they are Etude's: what one standard header happens to include of another does
not count.

Names of Etude are the macros of the precompiled headers and of those that they include, and what these declare
in namespaces. Not seen is a use that names nothing: of a member, an operator, a specialisation. Nor is one of a
name that the file, or a header in sight, has for something else as well."""
import functools
import re
import sys

import check_common as common

# Names by header. One that several headers declare stands with each.
NAMES = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_n count count_if equal fill fill_n find
        find_if find_if_not is_sorted iter_swap lower_bound max max_element min min_element minmax_element mismatch none_of
        next_permutation partial_sort remove replace_if reverse reverse_copy rotate sort stable_sort transform unique upper_bound""",
    "any": "any any_cast",
    "array": "array get tuple_element_t tuple_size tuple_size_v",
    "atomic": """atomic atomic_signal_fence memory_order_acq_rel memory_order_acquire memory_order_relaxed
        memory_order_release memory_order_seq_cst""",
    "bit": "bit_cast bit_ceil bit_width countr_zero endian has_single_bit",
    "cctype": "isalnum isdigit toupper",
    "charconv": "errc from_chars to_chars",
    "chrono": "chrono",
    "cmath": """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
        fdim floor fma fmax fmin fmod frexp hypot isfinite isinf isnan ldexp lerp lgamma log log10 log1p log2 lround
        nearbyint nextafter pow remainder rint round signbit sin sinh sqrt tan tanh tgamma trunc""",
    "complex": """abs acos acosh arg asin asinh atan atanh complex conj cos cosh exp log log10 polar pow real sin sinh
        sqrt tan tanh""",
    "concepts": """convertible_to copy_constructible derived_from equality_comparable floating_point integral
        same_as""",
    "condition_variable": "condition_variable condition_variable_any",
    "csetjmp": "jmp_buf longjmp",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t size_t",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "cstdio": "FILE ferror fclose fflush fgetc fopen fprintf fputc fputs fwrite rename size_t snprintf",
    "cstdlib": "abort abs atexit free getenv malloc size_t strtod strtol strtoll",
    "cstring": "memchr memcmp memcpy memmove memset size_t strerror strlen",
    "deque": "begin deque end erase_if size",
    "exception": """current_exception exception exception_ptr rethrow_exception throw_with_nested
        uncaught_exceptions""",
    "filesystem": "error_code filesystem",
    "fstream": "ifstream ios ofstream streamoff",
    "functional": "equal_to function greater hash invoke less mem_fn ref",
    "initializer_list": "initializer_list",
    "iosfwd": "ios ostream",
    "iostream": "cerr",
    "iterator": """back_inserter begin data default_sentinel_t end forward_iterator_tag istreambuf_iterator
        make_move_iterator prev size""",
    "limits": "numeric_limits",
    "list": "begin end erase_if list size",
    "map": "begin end erase_if less map multimap size",
    "memory": """addressof allocator destroy destroy_at dynamic_pointer_cast enable_shared_from_this make_shared
        make_unique make_unique_for_overwrite shared_ptr static_pointer_cast uninitialized_move unique_ptr weak_ptr""",
    "mutex": "adopt_lock call_once lock_guard mutex once_flag recursive_mutex try_to_lock unique_lock",
    "new": "align_val_t bad_alloc launder nothrow nothrow_t",
    "numbers": "numbers",
    "numeric": "accumulate gcd iota lerp",
    "optional": "in_place nullopt nullopt_t optional",
    "ostream": "ios ostream",
    "random": "mt19937 mt19937_64 normal_distribution uniform_real_distribution",
    "ranges": "views",
    "set": "begin end erase_if less set size",
    "shared_mutex": "shared_lock shared_mutex",
    "span": "begin data end size span",
    "sstream": "istringstream ostringstream",
    "stdexcept": "domain_error invalid_argument length_error out_of_range runtime_error",
    "string": "begin data end erase_if getline size stod stoll stoul string string_view to_string",
    "string_view": "begin data end size string_view",
    "system_error": "system_error errc error_code generic_category system_category",
    "thread": "jthread this_thread thread",
    "tuple": "apply get tie tuple tuple_cat tuple_element_t tuple_size tuple_size_v",
    "type_traits": """bool_constant common_type_t conditional_t decay_t extent_v false_type
        has_unique_object_representations_v integral_constant invoke_result_t make_unsigned_t remove_const_t remove_cv_t remove_cvref_t
        remove_extent_t remove_pointer_t remove_reference_t true_type type_identity type_identity_t
        underlying_type_t""",
    "typeindex": "type_index",
    "typeinfo": "bad_cast type_info",
    "unordered_map": "begin end erase_if size unordered_map unordered_multimap",
    "unordered_set": "begin end erase_if size unordered_set",
    "utility": """as_const cmp_less declval exchange forward get in_place in_place_index in_range index_sequence
        index_sequence_for integer_sequence make_index_sequence make_integer_sequence move pair swap
        tuple_element_t tuple_size tuple_size_v""",
    "valarray": "begin end valarray",
    "variant": """bad_variant_access get get_if holds_alternative in_place_index monostate variant variant_alternative_t variant_size
        variant_size_v visit""",
    "vector": "begin data end erase erase_if size vector",
}
# The same headers by the names that C has for them, and those that are defined to include others.
AS_WELL = {
    "iostream": ("ostream", "iosfwd"),
    "fstream": ("ostream", "iosfwd"),
    "sstream": ("ostream", "iosfwd"),
    "stddef.h": ("cstddef",),
    "stdint.h": ("cstdint",),
}
BY_NAME = {}
for declaring, declared in NAMES.items():
    for one in declared.split():
        BY_NAME.setdefault(one, []).append(declaring)
# A table of which each source takes the columns that it names.
TABLE = "etude/base/scalars/scalar_functions.inc"
FMT = ("fmt/format.h", "fmt/ranges.h")
NOT_CODE = re.compile(
    r'(?<!\n}  )//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|'
    r'^[ \t]*#[ \t]*include[^\n]*', re.S | re.M)
USE = re.compile(r"(?<![\w:])(?:std::(ranges::)?(\w+)|(fmt)::\w+|(u?int(?:8|16|32|64)_t)\b)")
LIST = "cmake/EtudePrecompile.cmake"
PRECOMPILED = re.compile(r"^function\(etude_precompile_library .*?^endfunction", re.S | re.M)
OURS = ("etude/", "tests/", "tools/")
# What namespaces declare begins a line, since clang-format indents what classes and functions do. NOT_CODE leaves
# the comment by which the end of a namespace is told from others.
DECLARED = re.compile(r"""^(?:
    (?:inline\ )?namespace\ (?:ETUDE_API\ )?(?P<begin>[\w:]*)\ ?\{ |
    \}\ \ //\ (?P<end>namespace) |
    (?:class|struct|union|enum(?:\ class)?|concept)\ (?:alignas\([^)]*\)\ |\[\[[^]]*\]\]\ |ETUDE_API\ )*
        (?P<type>\w+)(?![\w:]|\ ?<)[^;{=]*[;{=] |
    using\ (?P<alias>\w+)\ = |
    [ \t]*\#[ \t]*define[ \t]+(?P<macro>\w+) |
    (?:inline|extern|static|constexpr|const)\ [^=;({}]*?(?P<value>\w+)(?:\[[^]\n]*\])*(?:\ =|;|\{) |
    (?:decltype\(auto\)|(?=[\w[])(?!return|using|requires)[^\n=;{}()]*[\w>&*\]])\ [*&]*
        (?!decltype\b)(?P<function>\w+)\()""", re.M | re.X)
# `const class X& x` declares what `class X;` does.
ELABORATED = re.compile(r"(?<!friend )\b(?:class|struct) (\w+)[&*]")
# What follows a class that is used in a way for which that is not enough.
WHOLE = r"(?=::|[({]| \w+(?:;|\{| = )|(?:& (\w+)|\* (?:const )?(\w+))\b(?s:.)*?(?<![\w.>])(?:\1\.|\2->)\w)"
# Declarations at any place: members, and a NAME of the file's own. BEFORE precedes that of a function or variable.
BEFORE = r"(?:\b(?!return\b|else\b|case\b|throw\b|new\b|co_return\b|and\b|or\b|not\b)\w+|(?<=\S)[>&*\]]) [*&]*"
MEMBER_VALUE = re.compile(BEFORE + r"([a-z]\w+)(?:[({;]| = )")
MEMBER_TYPE = re.compile(r"^ +(?:class|struct|union|enum class|using) (\w+)(?= =| \{| :|;)", re.M)
OWN_TYPE = r"\b(?:class|struct|union|enum|using|concept|typename|\w+\.\.\.) (?:\w+::)*NAME\b(?! ?<)"
OWN_VALUE = BEFORE + r"NAME\b|(?:#define \w+\(|auto&* \[|enum[^;{]*\{)[^]})]*\bNAME\b"


def headers_of(use):
    """The headers that declare what a match of USE names; None if that is unknown."""
    of_ranges, name, fmt, integer = use.groups()
    if fmt:
        return FMT
    if of_ranges:
        return ("functional",) if name in ("greater", "less") else ("algorithm",)
    return BY_NAME.get(name or integer) or (("type_traits",) if name.startswith("is_") else None)


def declarations(code):
    """What namespaces declare, as `name` and as `space::name`: {name: group of DECLARED, or "ahead": `class X;`}."""
    found, spaces = {}, [""]
    for match in DECLARED.finditer(code):
        kind, name = match.lastgroup, match[match.lastgroup]
        if kind == "begin":
            spaces.append(name.split("::")[-1])
        elif kind == "end":
            spaces = spaces[:-1] or [""]
        else:
            kind = "ahead" if kind == "type" and match.group().endswith(";") else kind
            for key in {name, name if kind == "macro" else f"{spaces[-1]}::{name}"}:
                if found.get(key, "ahead") == "ahead":
                    found[key] = kind
    return found


class Files:
    """What files include and use, by their text."""

    def __init__(self, read):
        self.read = read
        self.offered = self.precompiled()

    @functools.cache
    def text(self, path):
        try:
            return self.read("etude/base/version.h.in" if path == "etude/version.h" else path)
        except OSError:
            return ""  # made by the build

    @functools.cache
    def code(self, path):
        return NOT_CODE.sub(lambda match: "\n" * match.group().count("\n"), self.text(path))

    @functools.cache
    def included(self, path):
        return common.INCLUDE.findall(self.text(path))

    def closure(self, path):
        """All headers that the text of `path` includes, through those of Etude."""
        found = set()
        todo = [path]
        while todo:
            for header in self.included(todo.pop()):
                if header not in found:
                    found.update((header, *AS_WELL.get(header, ())))
                    if header.startswith(OURS):
                        todo.append(header)
        return found

    def precompiled(self):
        """What the precompiled headers of Etude and those that they include declare: {name: (kind, headers)}."""
        listed = re.findall(r"\betude/[\w/]+\.h\b", PRECOMPILED.search(self.read(LIST)).group())
        offered, undefined = {}, set()
        for header in sorted(set(listed).union(*map(self.closure, listed))):
            code = self.code(header) if header.startswith(OURS) else ""
            undefined.update(re.findall(r"^#undef (\w+)", code, re.M))
            for name, kind in declarations(code).items():
                if kind != "ahead":
                    offered[name] = kind, offered.get(name, (kind, ()))[1] + (header,)
        return {name: offer for name, offer in offered.items()
                if len(name) > 1 and name[:5] != "std::" and name not in undefined}

    @functools.cache
    def given(self, path):
        """Which of those names `path` declares: (in namespaces, of these `class X;`, as members)."""
        code = self.code(path)
        found = declarations(code)
        ahead = {name for name, kind in found.items() if kind == "ahead"}
        members = {*MEMBER_VALUE.findall(code), *MEMBER_TYPE.findall(code)}
        every = found.keys() - ahead, ahead.union(ELABORATED.findall(code)), members
        return [self.offered.keys() & names for names in every]

    @functools.cache
    def named(self, path):
        """Which of them stand in `path`, be they uses or not."""
        found = set()
        for chain in set(re.findall(r"\w+(?:::\w+)*", self.code(path))):
            parts = chain.split("::")
            found.update(parts, map("::".join, zip(parts, parts[1:])))
        return self.offered.keys() & found

    def lacking(self, path, declaring):
        """Those that `path` uses and no file of `declaring` declares: {headers: (line of the first use, name)}."""
        code, found = self.code(path), {}
        given = [self.given(file) for file in declaring if file.startswith(OURS)]
        whole, ahead, members = (set().union(*names) for names in zip(*given))
        for name in self.named(path) - whole:
            kind, headers = self.offered[name]
            is_sure = "::" in name or kind == "macro"  # nothing else goes by it
            if not is_sure and (name in members or name in BY_NAME):
                continue
            before = r"(?<!\w)" if is_sure else r"(?<![\w:.>])"
            behind = WHOLE if name in ahead else r"(?=[<(])" if kind == "function" and not is_sure else r"\b"
            own = (OWN_TYPE if kind in ("type", "alias") else OWN_VALUE).replace("NAME", name)
            use = re.search(before + name + behind, code)
            if use and (is_sure or not re.search(own, code)):
                first = code.count("\n", 0, use.start()) + 1, name
                found[headers] = min(first, found.get(headers, first))
        return found

    @functools.cache
    def uses(self, path):
        """The names that `path` uses: (line of the first use, headers that declare it, None: unknown)."""
        code, first = self.code(path), {}
        for match in USE.finditer(code):
            # A name of one letter is a parameter of a macro.
            if match.group() not in first and len(match.group(2) or "std") > 1:
                first[match.group()] = code.count("\n", 0, match.start()) + 1, headers_of(match)
        return first

    def faults(self, path):
        """Yields (file, line, message): the first use of each name that lacks its header."""
        closure = self.closure(path)
        parts = [path] + sorted(header for header in closure if header.endswith(".inc") and header != TABLE)
        told = set()
        for part in parts:
            for name, (line, headers) in self.uses(part).items():
                if name in told or headers and closure.intersection(headers):
                    continue
                told.add(name)
                missing = " or ".join(f"<{header}>" for header in headers or ())
                yield part, line, (f"{name} needs {missing}, which {path} does not include" if headers else
                                   f"{name}: add its header to NAMES in tools/check_includes.py")
            for headers, (line, name) in self.lacking(part, closure | {path}).items():
                if headers not in told:
                    told.add(headers)
                    missing = " or ".join(f'"{header}"' for header in headers)
                    yield part, line, f"{name} needs {missing}, which {path} does not include"


def self_test():
    tree = {
        "etude/a.h": "#include <vector>\n#include \"etude/b.inc\"\nstd::vector<int> v;  // std::map\n",
        "etude/b.inc": "std::string s = \"std::deque\";\n",
        "etude/a.cc": "#include \"etude/a.h\"\n#include <string>\n\nstd::vector<std::string> v;\nuint8_t x;\n",
        "etude/c.cc": "void f() { std::ranges::sort(v); fmt::format(\"\"); }\n",
        "etude/d.cc": "#include <algorithm>\nusing std::sort;\nauto x = std::no_such_name;\n"
                      "bool b = std::is_same_v<A, B>;\n",
        "etude/e.cc": "#include \"etude/made_by_the_build.h\"\n#define ISA_SOURCE \"etude/b.inc\"\n",
        LIST: "function(etude_precompile_library t)\n  set(h \"\\\"etude/p.h\\\"\")\nendfunction()\n\"etude/a.h\"\n",
        "etude/p.h": '#include "etude/q.h"\n#define P_DO(x) x\nnamespace etude {\nclass Pa {\n  void go();\n};\n'
                     "}  // namespace etude\n",
        "etude/q.h": "namespace etude {\nnamespace in {\nint find_q(int);\n}  // namespace in\n"
                     "inline constexpr int kQ = 1;\ntemplate <class T>\nstruct Qa {\n};\n}  // namespace etude\n",
        "etude/own.h": '#include "etude/p.h"\n',
        "etude/ahead.h": "namespace etude {\nclass Pa;\nint find_q(int);\n}  // namespace etude\n",
    }

    def read(path):
        if path not in tree:
            raise FileNotFoundError(path)
        return tree[path]

    def told(path):
        return [(line, message.split(",")[0]) for _, line, message in Files(read).faults(path)]

    assert told("etude/a.h") == [(1, "std::string needs <string>")]
    assert told("etude/a.cc") == [(5, "uint8_t needs <cstdint>")]
    assert told("etude/c.cc") == [(1, "std::ranges::sort needs <algorithm>"),
                                  (1, "fmt::format needs <fmt/format.h> or <fmt/ranges.h>")]
    assert told("etude/d.cc") == [(3, "std::no_such_name: add its header to NAMES in tools/check_includes.py"),
                                  (4, "std::is_same_v needs <type_traits>")]
    assert told("etude/e.cc") == [(1, "std::string needs <string>")]

    needs_p, needs_q = 'needs "etude/p.h"', 'needs "etude/q.h"'
    for code, faults in (
            ("int x;\nPa p;\nPa q;\n", [(2, f"Pa {needs_p}")]),
            ('#include "etude/own.h"\nPa p;\nint x = kQ;\n', []),
            ("class Pa;\nvoid f(Pa* p);\n", []),
            ('#include "etude/ahead.h"\nvoid f(const Pa& p, Pa* q);\n', []),
            ('#include "etude/ahead.h"\nvoid f(Pa* p) {\n  p->go();\n}\nPa q = {};\n', [(2, f"Pa {needs_p}")]),
            ("template <class Pa>\nvoid f(Pa p);\nother::Pa p;\n", []),
            ("// Pa\nauto x = \"Pa\" + 'Pa';  /* P_DO(1) */\n", []),
            ("#define X P_DO(1)\n", [(1, f"P_DO {needs_p}")]),
            ("template <>\nstruct Qa<int> {\n};\nint x = kQ;\n", [(2, f"Qa {needs_q}")]),
            ("enum { kQ };\nint x = kQ + A::kQ;\nint find_q = find_q(1);\n", []),
            ("int x = find_q(1);\n", [(1, f"find_q {needs_q}")]),
            ("int x = a.find_q(1) + a->find_q(1) + A::find_q(1) + find_q;\n", []),
            ('#include "etude/ahead.h"\nint x = find_q(1) + in::find_q(1);\n', [(2, f"in::find_q {needs_q}")])):
        tree["etude/f.cc"] = code
        assert told("etude/f.cc") == faults, (code, told("etude/f.cc"))


def check():
    files = Files(common.read)
    found = set() if files.offered else {f"{LIST}: etude_precompile_library names no header of Etude"}
    for path in common.cpp_files():
        if path.startswith(("etude/", "tools/")) and path.endswith((".h", ".cc")) and not path.endswith("_test.cc"):
            found.update(f"{file}:{line}: {message}" for file, line, message in files.faults(path))
    return sorted(found)


if __name__ == "__main__":
    sys.exit(common.run(check, self_test))
