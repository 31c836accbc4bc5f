// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// concat of the CUDA backend against the reference loops; everything is exact.
#include "base/error.h"
#include "kernels/ops/cuda/library/layout.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

class CudaConcat : public CudaOps, public ::testing::WithParamInterface<ConcatCase> {
 protected:
  template <typename Layout>
  static ConcatDesc desc(const Layout& layout) {
    ConcatDesc desc;
    for (const Shape& shape : GetParam().inputs) desc.inputs.push_back(layout(shape));
    return desc;
  }
  static std::vector<ConcatDesc> descs() {
    std::vector<ConcatDesc> descs;
    for (const DataType type : {DataType::fp32, DataType::bf16}) {
      descs.push_back(desc([&](const Shape& shape) { return TensorLayout::plain(shape, type); }));
      if (GetParam().inputs[0].size() < 4) continue;
      descs.push_back(desc([&](const Shape& shape) { return cuda::nhwc_layout(shape, type); }));
    }
    return descs;
  }
};

TEST_P(CudaConcat, EqualsTheReferenceInEveryLayoutAndType) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference =
      plain.backend().make(desc([](const Shape& s) { return TensorLayout::plain(s); }));
  const OpInputs in = whole_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, in);
  BackendFixture fixture = cuda_backend();
  for (const ConcatDesc& concat : descs())
    for (const Execution execution : {Execution::direct, Execution::recorded}) {
      SCOPED_TRACE(concat.inputs[0].tag);
      const auto op = fixture.backend().make(concat);
      for (std::size_t i = 0; i < concat.inputs.size(); ++i) {
        EXPECT_EQ(op->plan().inputs[i], concat.inputs[i]);
      }
      EXPECT_EQ(op->plan().output.tag, concat.inputs[0].tag);
      EXPECT_EQ(op->plan().output.type, concat.inputs[0].type);
      expect_same_bits(run(fixture, *op, in, execution), want);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaConcat, ::testing::ValuesIn(concat_cases()),
                         [](const auto& test) { return test.param.name; });

using CudaConcatPlan = CudaOps;

// The network's input is plain and fp32, maps of convolutions are neither.
TEST_F(CudaConcatPlan, TakesTheLayoutOfMaps) {
  BackendFixture fixture = cuda_backend({.precision = CudaPrecision::bf16});
  const auto op = fixture.backend().make(ConcatDesc{
      {TensorLayout::plain({2, 3, 4, 4}), cuda::nhwc_layout({2, 8, 4, 4}, DataType::bf16)}});
  EXPECT_EQ(op->plan().inputs[0], cuda::nhwc_layout({2, 3, 4, 4}, DataType::bf16));
  EXPECT_EQ(op->plan().output, cuda::nhwc_layout({2, 11, 4, 4}, DataType::bf16));
}

TEST_F(CudaConcatPlan, RefusesShapesThatDoNotFit) {
  BackendFixture fixture = cuda_backend();
  EXPECT_THROW(fixture.backend().make(ConcatDesc{
                   {TensorLayout::plain({2, 3, 4, 4}), TensorLayout::plain({2, 3, 4, 5})}}),
               ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
