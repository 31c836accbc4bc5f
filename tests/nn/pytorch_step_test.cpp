// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Training steps of whole networks against PyTorch, where it is installed.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "kernels/nn/safetensors.h"
#include "kernels/nn/weights.h"
#include "tests/nn/networks.h"
#include "tests/nn/small_deeplab.h"

namespace ddpbench::nn {
namespace {

namespace fs = std::filesystem;

// Exit status of check_network.py for a step of the network that `text` describes.
int compare_step(const std::string& text, std::int64_t batch) {
  const ModelSpec model = parse_model(text, "model.json");
  TestGraph test(model, onednn, {.batch = batch});
  const fs::path folder = fs::temp_directory_path() / ("ddpbench_nn_step_" + model.name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto save = [&](const char* name, const std::vector<NamedTensor>& tensors) {
    write_safetensors((folder / name).string(), tensors, false);
  };
  write_file((folder / "model.json").string(), text);
  save("checkpoint.safetensors", export_checkpoint(test.graph()));
  test.train();
  save("gradients.safetensors", export_gradients(test.graph()));
  ops::Shape input = model.input_shape;
  input.insert(input.begin(), batch);
  ops::Shape logits = model.logits_shape();
  logits.insert(logits.begin(), batch);
  TestGraph again(model, onednn, {.batch = batch});
  save("batch.safetensors",
       {{"input", input, {test.input(), test.input() + ops::element_count(input)}},
        {"coefficients", logits,
         random_values(static_cast<std::size_t>(ops::element_count(logits)), 3)},
        {"logits", logits, again.forward()}});
  const int status = run_python("check_network.py", folder.string());
  fs::remove_all(folder);
  return status;
}

TEST(PyTorchStep, OfJoinedBranchesIsTheSame) {
  const int status = compare_step(joined_network_text(), 6);
  if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
  EXPECT_EQ(status, 0);
}

TEST(PyTorchStep, OfResNet20IsTheSame) {
  const int status =
      compare_step(read_file(model_path("resnet20"), {.what = "model ", .most_bytes = 1 << 20}), 4);
  if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
  EXPECT_EQ(status, 0);
}

TEST(PyTorchStep, OfDeepLabIsTheSame) {
  const int status = compare_step(test::quarter_of_deeplab(65, false), 2);
  if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
  EXPECT_EQ(status, 0);
}

// The network of configs/models with smaller images and features, so that a step takes a second,
// and without random numbers.
std::string reduced(const std::string& name) {
  std::string text = read_file(model_path(name), {.what = "model ", .most_bytes = 1 << 20});
  const auto replace = [&text](const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
    }
  };
  replace("[3, 224, 224]", "[3, 96, 96]");
  replace(R"("out_features": 4096)", R"("out_features": 96)");
  replace(R"("p": 0.5)", R"("p": 0)");
  return text;
}

class ClassicStep : public testing::TestWithParam<const char*> {};

TEST_P(ClassicStep, IsTheSame) {
  const int status = compare_step(reduced(GetParam()), 2);
  if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, ClassicStep, testing::Values("alexnet", "vgg16"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace ddpbench::nn
