// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Networks with batch norm: training and evaluation, and the state that training leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "kernels/nn/checkpoint.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/plan/lowering.h"
#include "kernels/nn/weights.h"
#include "kernels/ops/op.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<float> evaluate(TestGraph& test) {
  test.graph().forward(test.stream(), test.input(), ops::Mode::evaluation);
  test.stream().synchronize();
  const auto count = static_cast<std::size_t>(test.graph().batch() * 3);
  return {test.graph().output(), test.graph().output() + count};
}

const NamedTensor& tensor_of(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw InternalError("no tensor " + name);
}

std::string error_of(Graph& graph, const std::vector<NamedTensor>& tensors) {
  try {
    import_checkpoint(graph, tensors, "w.safetensors");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The forward calls whose outputs some call of backward reads.
std::vector<std::string> outputs_for_backward(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedCall& producer : plan.forward) {
    const auto reads = [&](const PlannedCall& call) {
      return call.output == producer.output || std::ranges::count(call.inputs, producer.output) > 0;
    };
    if (std::ranges::any_of(plan.backward, reads)) names.push_back(producer.name);
  }
  return names;
}

TEST(BatchNormGraph, NamesTheLayerWhoseBatchIsTooSmall) {
  const ModelSpec model = parse_model(R"({"name": "dot", "input": [1, 4, 4], "layers": [
      {"name": "stem", "type": "conv2d", "out_channels": 8, "kernel": 3},
      {"name": "norm1", "type": "batch_norm2d"},
      {"name": "point", "type": "conv2d", "out_channels": 8, "kernel": 2},
      {"name": "norm2", "type": "batch_norm2d"},
      {"name": "fc", "type": "linear", "out_features": 10}]})",
                                      "dot.json");
  try {
    const TestGraph test(model, onednn, {.batch = 1});
    FAIL() << "was planned";
  } catch (const ops::BatchTooSmall& error) {
    EXPECT_THAT(error.what(), HasSubstr("network dot, layer \"norm2\": batch_norm2d: input "));
    EXPECT_THAT(error.what(), HasSubstr("one value a channel; at least 2 are needed"));
  }
}

TEST(BatchNormGraph, BeginsWithPyTorchsValues) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  const auto tensors = export_checkpoint(test.graph());
  EXPECT_EQ(tensor_of(tensors, "stem_norm.weight").values, std::vector<float>(18, 1));
  EXPECT_EQ(tensor_of(tensors, "stem_norm.bias").values, std::vector<float>(18, 0));
  EXPECT_EQ(tensor_of(tensors, "stem_norm.running_mean").values, std::vector<float>(18, 0));
  EXPECT_EQ(tensor_of(tensors, "stem_norm.running_var").values, std::vector<float>(18, 1));
  EXPECT_THAT(tensor_of(tensors, "stem_norm.num_batches_tracked").integers, ElementsAre(0));
  EXPECT_EQ(tensor_of(tensors, "stem_norm.num_batches_tracked").shape, ops::Shape{});
}

TEST(BatchNormGraph, BackwardReadsNoAddend) {
  for (const auto make : {reference, onednn}) {
    TestGraph test(normalized_network(), make, {.batch = 4});
    Plan plan = lower_network(normalized_network(), test.backend(), {.batch = 4}).plan;
    plan_backward(plan, test.backend());
    EXPECT_THAT(outputs_for_backward(plan), Not(Contains("left_norm")));
    EXPECT_THAT(outputs_for_backward(plan), Contains("right_norm+sum+sum_relu"));
  }
}

// Two convolutions read the stem's output: it is made once, where the first needs it.
TEST(BatchNormGraph, BackwardMakesOutputsAnewThatForwardDidNotKeep) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  Plan plan = lower_network(normalized_network(), test.backend(), {.batch = 4}).plan;
  plan_backward(plan, test.backend());
  EXPECT_THAT(outputs_for_backward(plan), Not(Contains("stem_norm+stem_relu")));
  std::vector<std::string> calls;
  for (const PlannedCall& call : plan.backward) {
    calls.push_back((call.direction == Direction::recompute ? "again " : "") + call.name);
  }
  EXPECT_EQ(std::ranges::count(calls, "again stem_norm+stem_relu"), 1);
  const auto at = [&](const char* name) { return std::ranges::find(calls, name) - calls.begin(); };
  EXPECT_EQ(at("again stem_norm+stem_relu") + 1, std::min(at("left"), at("right")));
}

// The same two give gradients to it, which its backward adds.
TEST(BatchNormGraph, BackwardAddsTheGradientsOfTwoReaders) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  Plan plan = lower_network(normalized_network(), test.backend(), {.batch = 4}).plan;
  plan_backward(plan, test.backend());
  int added = 0;
  for (const PlannedCall& call : plan.backward) {
    EXPECT_EQ(call.name.find("gradients summed"), std::string::npos) << call.name;
    if (call.more_grad_output == kNoValue) continue;
    EXPECT_EQ(call.name, "stem_norm+stem_relu");
    EXPECT_NE(call.grad_output, call.more_grad_output);
    ++added;
  }
  EXPECT_EQ(added, 1);
}

TEST(BatchNormGraph, TakesNoVarianceBelowZero) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  const auto before = flat_state(export_state(test.graph()));
  auto tensors = export_checkpoint(test.graph());
  for (NamedTensor& tensor : tensors) {
    if (tensor.name == "last_norm.running_mean") tensor.values[1] = -3;  // a mean may be
    if (tensor.name == "stem_norm.running_var") tensor.values[5] = 0;    // of a constant map
  }
  EXPECT_EQ(error_of(test.graph(), tensors), "");
  for (NamedTensor& tensor : tensors)
    if (tensor.name == "stem_norm.running_var") tensor.values[7] = -0.25F;
  TestGraph other(normalized_network(), onednn, {.batch = 4});
  EXPECT_THAT(error_of(other.graph(), tensors),
              testing::AllOf(HasSubstr("w.safetensors: value 7 of the tensor "
                                       "\"stem_norm.running_var\" is -0.25"),
                             HasSubstr("no variance is below 0")));
  EXPECT_EQ(flat_state(export_state(other.graph())), before);
}

TEST(BatchNormGraph, CountsParametersAndState) {
  const ModelSpec model = normalized_network();
  // Convolutions 27 + 162 + 18 a channel, three norms with parameters, 216 x 3 + 3 of the head.
  EXPECT_EQ(model.parameter_count(), 18 * (27 + 162 + 18) + 3 * 36 + 651);
  EXPECT_EQ(model.tensor_count(), 3 + 6 + 2);
  EXPECT_EQ(model.state_count(), 4 * 37);
  EXPECT_EQ(model.state_tensor_count(), 12);
  EXPECT_FALSE(simple_cnn().has_state());
  TestGraph test(model, onednn, {.batch = 4});
  // Each tensor at 64 bytes: 72 bytes take two lines.
  EXPECT_EQ(test.graph().plan().state_bytes, 4u * (128 + 128 + 64));
  EXPECT_EQ(test.device().memory().live_bytes[static_cast<std::size_t>(MemoryCategory::state)],
            4u * (128 + 128 + 64));
}

TEST(BatchNormGraph, TrainingMovesTheStateAndEvaluationDoesNot) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  const auto start = flat_state(export_state(test.graph()));
  const std::vector<float> evaluated = evaluate(test);
  EXPECT_EQ(flat_state(export_state(test.graph())), start);
  EXPECT_NE(test.forward(), evaluated) << "statistics of the batch";
  const auto once = export_state(test.graph());
  EXPECT_NE(flat_state(once), start);
  EXPECT_THAT(tensor_of(once, "last_norm.num_batches_tracked").integers, ElementsAre(1));
  EXPECT_NE(evaluate(test), evaluated) << "evaluation reads the state";
  test.train();
  EXPECT_THAT(tensor_of(export_state(test.graph()), "last_norm.num_batches_tracked").integers,
              ElementsAre(2));
}

TEST(BatchNormGraph, EvaluationHasNoBackward) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  test.forward();
  evaluate(test);
  EXPECT_THROW(test.graph().backward(test.stream()), InternalError);
  test.train();
}

TEST(BatchNormGraph, AGraphThatIsNotForTrainingEvaluates) {
  TestGraph training(normalized_network(), onednn, {.batch = 4});
  training.train();
  TestGraph evaluation(normalized_network(), onednn, {.batch = 4, .training = false});
  import_checkpoint(evaluation.graph(), export_checkpoint(training.graph()), "memory");
  EXPECT_EQ(evaluation.forward(), evaluate(training));
  EXPECT_EQ(flat_state(export_state(evaluation.graph())),
            flat_state(export_state(training.graph())));
}

TEST(BatchNormGraph, KeepsItsWholeStateInAFile) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  for (int step = 0; step < 3; ++step) test.train();
  auto tensors = export_checkpoint(test.graph());
  // A count that no float holds.
  for (NamedTensor& tensor : tensors)
    if (tensor.type == DataType::int64) tensor.integers = {16'777'217};
  const fs::path path = fs::temp_directory_path() / "ddpbench_nn_state.safetensors";
  write_safetensors(path.string(), tensors, true);
  TestGraph other(normalized_network(), reference, {.batch = 4});
  import_checkpoint(other.graph(), read_safetensors(path.string()), path.string());
  fs::remove(path);
  const auto read = export_checkpoint(other.graph());
  ASSERT_EQ(read.size(), tensors.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, tensors[i].name);
    EXPECT_EQ(read[i].shape, tensors[i].shape);
    EXPECT_EQ(read[i].values, tensors[i].values) << read[i].name;
    EXPECT_EQ(read[i].integers, tensors[i].integers) << read[i].name;
  }
}

TEST(BatchNormGraph, RefusesACheckpointWithoutItsStateOrOfAnotherType) {
  TestGraph test(normalized_network(), onednn, {.batch = 4});
  EXPECT_THAT(error_of(test.graph(), export_weights(test.graph())),
              HasSubstr(" missing (\"stem_norm.running_mean\", "));
  auto tensors = export_checkpoint(test.graph());
  for (NamedTensor& tensor : tensors) {
    if (tensor.type != DataType::int64) continue;
    tensor.type = DataType::fp32;
    tensor.integers.clear();
    tensor.values = {1};
  }
  EXPECT_THAT(error_of(test.graph(), tensors), HasSubstr("has the type fp32"));
}

// PyTorch has counted batches since version 2 of the layer. It loads older files, strictly too.
TEST(BatchNormGraph, TakesCountsThatAnOlderFileLacksAsZero) {
  TestGraph from(normalized_network(), onednn, {.batch = 4}),
      to(normalized_network(), onednn, {.batch = 4});
  from.train();
  to.train();
  std::vector<NamedTensor> tensors = export_checkpoint(from.graph());
  const auto is_count = [](const NamedTensor& tensor) { return tensor.type == DataType::int64; };
  std::erase_if(tensors, is_count);
  EXPECT_EQ(error_of(to.graph(), tensors), "");
  for (const NamedTensor& tensor : export_checkpoint(to.graph())) {
    if (is_count(tensor)) {
      EXPECT_THAT(tensor.integers, ElementsAre(0)) << tensor.name;
    } else {
      EXPECT_EQ(tensor.values, tensor_of(tensors, tensor.name).values) << tensor.name;
    }
  }
}

TEST(BatchNormGraph, TakesStateAsNumbers) {
  TestGraph from(normalized_network(), onednn, {.batch = 4}),
      to(normalized_network(), onednn, {.batch = 4});
  from.train();
  const auto values = flat_state(export_state(from.graph()));
  import_state_values(to.graph(), values);
  EXPECT_EQ(flat_state(export_state(to.graph())), values);
  EXPECT_THROW(import_state_values(to.graph(), std::span(values).first(5)), InternalError);
}

TEST(BatchNormGraph, ComputesWhatPyTorchComputes) {
  TestGraph test(normalized_network(), onednn, {.batch = 6});
  const fs::path folder = fs::temp_directory_path() / "ddpbench_nn_batch_norm";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto save = [&](const char* name, const std::vector<NamedTensor>& tensors) {
    write_safetensors((folder / name).string(), tensors, false);
  };
  save("before.safetensors", export_checkpoint(test.graph()));
  test.train();
  save("after.safetensors", export_checkpoint(test.graph()));
  save("gradients.safetensors", export_gradients(test.graph()));
  const std::vector<float> evaluated = evaluate(test);
  TestGraph again(normalized_network(), onednn, {.batch = 6});
  const auto input = std::vector<float>(test.input(), test.input() + 6 * 3 * 8 * 7);
  save("batch.safetensors", {{"input", {6, 3, 8, 7}, input},
                             {"coefficients", {6, 3}, random_values(18, 3)},
                             {"logits", {6, 3}, again.forward()},
                             {"evaluated", {6, 3}, evaluated}});
  const int status = run_python("check_batch_norm.py", folder.string());
  fs::remove_all(folder);
  if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ddpbench::nn
