// SPDX-License-Identifier: Apache-2.0
// Ops that contexts and derived rules call, without a public function.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/elementwise/elementwise.h"
#include "etude/kernels/cpu/simd/program.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

const ScalarDef& program_of(const Attrs& attrs) {
  return *std::get<const ScalarDef*>(attrs.value("program"));
}

// Functions of bits are for integers alone: of floats their kernels make nothing.
void require_functions_take(DType dtype, const scalar::Program& program) {
  for (int i = 0; i < program.size && is_floating(dtype); ++i) {
    const scalar::Node& node = program.nodes[static_cast<std::size_t>(i)];
    const scalar::FnInfo& info = scalar::info(node.fn);
    if (info.arity == 0 || program.is_bool_node(node.args[0])) continue;
    ETUDE_REQUIRE(op(info.op).def().dtypes.contains(kFloat32),
                  "the program calls {}, which does not take {}", info.op, name(dtype));
  }
}

// The kernels read as many operands and parameters as the program names, all values as one dtype.
void require_program_fits(const TypeCall& call, const scalar::Program& program) {
  const std::size_t given = call.types.size(), params = call.attrs.reals("params").size();
  ETUDE_REQUIRE(given <= kernels::cpu::kMaxOperands,
                "there are {} operands, but at most {} fit one pass. Split the program", given,
                kernels::cpu::kMaxOperands);
  ETUDE_REQUIRE(given >= 1 && given == static_cast<std::size_t>(program.operands),
                "there are {} operands, but the program reads {}", given, program.operands);
  ETUDE_REQUIRE(params >= static_cast<std::size_t>(program.params),
                "params has {} numbers, but the program reads {}", params, program.params);
  std::size_t first = given;  // operand with a value
  for (std::size_t i = 0; i < given; ++i) {
    const bool is_bool = ((program.bools >> i) & 1) != 0;
    if (!is_bool && first == given) first = i;
    ETUDE_REQUIRE(is_bool ? call.dtype(i) == kBool : call.dtype(i) == call.dtype(first),
                  "element {} of 'xs' is {}, but must be {}", i, name(call.dtype(i)),
                  name(is_bool ? kBool : call.dtype(first)));
  }
  if (first < given) require_functions_take(call.dtype(first), program);
}

Types fused_type(const TypeCall& call) {
  const scalar::Program& program = *program_of(call.attrs).program;
  require_program_fits(call, program);
  Shape shape = call.shape(0);
  DType dtype = call.dtype(0);
  for (std::size_t i = 0; i < call.types.size(); ++i) {
    shape = broadcast(shape, call.shape(i));
    if (((program.bools >> i) & 1) == 0) dtype = call.dtype(i);
  }
  return {call.make(program.is_bool ? kBool : dtype, shape)};
}

// One public op per node, with the same bits as the fused kernel.
Values lower_fused(Operands in, const Attrs& attrs) {
  const scalar::Program& program = *program_of(attrs).program;
  DType dtype = in[0].dtype();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (((program.bools >> i) & 1) == 0) dtype = in[i].dtype();
  }
  std::vector<Tensor> nodes;
  for (int k = 0; k < program.size; ++k) {
    const scalar::Node& node = program.nodes[static_cast<std::size_t>(k)];
    if (node.fn == scalar::Fn::kOperand) {
      nodes.push_back(in[node.args[0]]);
    } else if (node.fn == scalar::Fn::kConstant) {
      nodes.push_back(internal::adapt(Arg(node.constant), dtype));
    } else if (node.fn == scalar::Fn::kParam) {
      nodes.push_back(internal::adapt(Arg(attrs.reals("params")[node.args[0]]), dtype));
    } else {
      OperandList operands;
      for (int a = 0; a < scalar::info(node.fn).arity; ++a) {
        operands.add(nodes[node.args[static_cast<std::size_t>(a)]]);
      }
      nodes.push_back(run(op(scalar::info(node.fn).op), operands));
    }
  }
  return {nodes.back()};
}

void prepare_fused_elementwise(const PrepareCall& call) {
  kernels::cpu::prepare_fused(call, program_of(call.attrs));
}

}  // namespace

void define_internal_ops(Registry& r) {
  r.define({
      .name = "strong_product",
      .space = "internal",
      .kind = Kind::kElementwise,
      .doc =
          "x1 * x2 as the chain rule multiplies: 0 where one of them is 0, be the other infinite "
          "or NaN.",
      .operands = {"x1", "x2"},
      .dtypes = kFloatingComplex,
      .scalar = scalar_of<2>([](auto x1, auto x2) { return math::strong_product(x1, x2); }),
      .accepts_slices = 0b11,
  });
  r.define({
      .name = "fused_elementwise",
      .space = "internal",
      .kind = Kind::kComposition,
      .doc = "A scalar program on each element: what a run of element-wise calls computes, in one "
             "pass.",
      .operands = {{"xs...", kAnyDType}},
      .attrs = {{"program", AttrKind::kProgram}, {"params", AttrKind::kReals}},
      .type = fused_type,
      .kernels = {.cpu = prepare_fused_elementwise},
      .lower = lower_fused,
      .batch = batching::aligned,
      .is_cheap = true,
  });
}

}  // namespace etude::ops
