// SPDX-License-Identifier: Apache-2.0
// Lines of Python programs. A position in a code object is looked up once; a table of the last ones
// keeps it, since a line costs a walk over the code's table of lines.
#include "python/src/frames.h"

#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "python/src/bind.h"

// Whether an object has a counted reference for each variable that holds it. Without the global
// lock it has not; and from 3.14 on frames borrow: a parameter and the variable that was passed can
// be one reference.
#if defined(Py_GIL_DISABLED) || PY_VERSION_HEX >= 0x030E0000
#define ETUDE_PYTHON_COUNTS 0
#else
#define ETUDE_PYTHON_COUNTS 1
#endif

namespace etude::python {
namespace {

// The kind of the instruction of a position.
enum class Instruction : uint8_t { kUnknown, kOther, kAugmented };

struct Position {
  PyCodeObject* code = nullptr;  // an own reference, so that its address stays its own
  int instruction = -1;
  Instruction kind = Instruction::kUnknown;
  CallSite where;
};

#ifdef Py_GIL_DISABLED
thread_local std::array<Position, 64> positions;
#else
std::array<Position, 512> positions;
#endif

// File names by their text. They are never freed.
const char* interned(PyObject* filename) {
  static std::unordered_set<std::string>* names = new std::unordered_set<std::string>;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(filename, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return "<unknown>";
  }
  return names->emplace(text, static_cast<std::size_t>(size)).first->c_str();
}

std::string& package_folder() {
  static std::string* folder = new std::string;
  return *folder;
}

bool is_own(PyCodeObject* code) {
  static std::unordered_map<PyObject*, bool>* known = new std::unordered_map<PyObject*, bool>;
  const std::string& folder = package_folder();
  if (folder.empty()) return false;
  // Names of files are shared by the code objects of a module, and few.
  PyObject* filename = code->co_filename;
  const auto found = known->find(filename);
  if (found != known->end()) return found->second;
  const char* text = PyUnicode_AsUTF8(filename);
  if (text == nullptr) PyErr_Clear();
  const bool own = text != nullptr && std::string_view(text).starts_with(folder);
  Py_INCREF(filename);
  known->emplace(filename, own);
  return own;
}

Position& position_of(PyFrameObject* frame, PyCodeObject* code) {
  const int instruction = PyFrame_GetLasti(frame);
  const std::size_t hash =
      (reinterpret_cast<uintptr_t>(code) >> 4) * 31 + static_cast<std::size_t>(instruction);
  Position& position = positions[hash % positions.size()];
  if (position.code == code && position.instruction == instruction) return position;
  Py_INCREF(code);
  Py_XDECREF(position.code);
  position = {code,
              instruction,
              Instruction::kUnknown,
              {interned(code->co_filename), PyFrame_GetLineNumber(frame)}};
  return position;
}

#if ETUDE_PYTHON_COUNTS
// The number of the instruction of binary operators, and the first argument that is an augmented
// assignment: as the Python of this process numbers them.
struct Opcodes {
  int binary_op = -1;
  int first_augmented = 256;
};
const Opcodes& opcodes() {
  static const Opcodes known = [] {
    Opcodes out;
    const nb::object module = nb::module_::import_("opcode");
    out.binary_op = nb::cast<int>(module.attr("opmap")["BINARY_OP"]);
    const nb::list names(module.attr("_nb_ops"));
    int i = 0;
    for (const nb::handle entry : names) {
      if (nb::cast<std::string>(entry[1]).ends_with('=')) break;
      ++i;
    }
    out.first_augmented = i;
    return out;
  }();
  return known;
}

bool is_augmented(Position& position) {
  if (position.kind == Instruction::kUnknown) {
    const nb::object bytes = nb::steal(PyCode_GetCode(position.code));
    const auto* text = bytes.is_valid() ? PyBytes_AsString(bytes.ptr()) : nullptr;
    const int at = position.instruction;
    bool augmented = false;
    if (text != nullptr && at >= 0 && at + 1 < PyBytes_Size(bytes.ptr())) {
      augmented = static_cast<unsigned char>(text[at]) == opcodes().binary_op &&
                  static_cast<unsigned char>(text[at + 1]) >= opcodes().first_augmented;
    }
    if (text == nullptr) PyErr_Clear();
    position.kind = augmented ? Instruction::kAugmented : Instruction::kOther;
  }
  return position.kind == Instruction::kAugmented;
}
#endif

}  // namespace

CallSite here() noexcept {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const bool own = is_own(code);
    CallSite where;
    if (!own) where = position_of(frame, code).where;
    Py_DECREF(code);
    PyFrameObject* back = own ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    if (!own) return where;
    frame = back;
  }
  return {};
}

bool is_only_target(PyObject* object) noexcept {
#if !ETUDE_PYTHON_COUNTS
  static_cast<void>(object);
  return false;
#else
  // One reference of the variable, and one of the stack of the frame.
  constexpr Py_ssize_t kMost = 2;
  if (Py_REFCNT(object) > kMost) return false;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (frame == nullptr) return false;
  PyCodeObject* code = PyFrame_GetCode(frame);
  bool augmented = false;
  try {
    augmented = is_augmented(position_of(frame, code));
  } catch (...) {  // a Python without these tables: the assignment makes a new object
    PyErr_Clear();
  }
  Py_DECREF(code);
  Py_DECREF(frame);
  return augmented;
#endif
}

void bind_frames(nb::module_& m) {
  m.def(
      "_set_package_folder", [](const char* folder) { package_folder() = folder; },
      nb::arg("folder"), "Frames of files in this folder are not the user's.");
  m.def(
      "_here",
      [] {
        const CallSite where = here();
        return nb::make_tuple(where.file, where.line);
      },
      "The user's file and line, for tests.");
}

}  // namespace etude::python
