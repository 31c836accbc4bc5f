// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The loss in a network's description: what is read and refused, what it changes, and PyTorch's.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "kernels/nn/safetensors.h"
#include "kernels/nn/weights.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string classifier(const std::string& rest) {
  return R"({"name": "net", "input": [1, 4, 4], "layers": [
    {"name": "fc", "type": "linear", "out_features": 10}])" +
         rest + "}";
}

std::string map_network(const std::string& rest = "") {
  return R"({"name": "map", "input": [3, 9, 8], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 18, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "conv2", "type": "conv2d", "out_channels": 5, "kernel": 3, "stride": 2}])" +
         rest + "}";
}

LossSpec loss_in(const std::string& loss) {
  return parse_model(classifier(R"(, "loss": )" + loss), "m.json").loss;
}

TEST(LossDescription, IsPlainCrossEntropyWithoutOne) {
  const ModelSpec model = parse_model(classifier(""), "m.json");
  EXPECT_EQ(model.loss.label_smoothing, 0);
  EXPECT_EQ(model.loss.ignore_index, ops::kIgnoresNothing);
  const ops::CrossEntropyDesc desc = loss_of(model, 0, 6);
  EXPECT_EQ(desc.batch, 6);
  EXPECT_EQ(desc.classes, 10);
  EXPECT_EQ(desc.positions, 1);
}

TEST(LossDescription, IsRead) {
  const LossSpec loss =
      loss_in(R"({"type": "cross_entropy", "label_smoothing": 0.1, "ignore_index": 255})");
  EXPECT_EQ(loss.label_smoothing, 0.1);
  EXPECT_EQ(loss.ignore_index, 255);
  EXPECT_EQ(loss_in(R"({"ignore_index": 0})").ignore_index, 0);
}

TEST(LossDescription, ThatCannotBeIsRefusedWithItsPlace) {
  const auto error_of = [](const std::string& loss) {
    try {
      loss_in(loss);
      return std::string("accepted");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(error_of("3"), HasSubstr("m.json at /loss: "));
  EXPECT_THAT(error_of(R"({"type": "cross_entrophy"})"),
              testing::AllOf(HasSubstr("m.json at /loss/type: unknown loss \"cross_entrophy\""),
                             HasSubstr("cross_entropy")));
  EXPECT_THAT(error_of(R"({"smoothing": 0.1})"), HasSubstr("/loss"));
  EXPECT_THAT(error_of(R"({"label_smoothing": 1.5})"),
              HasSubstr("m.json at /loss/label_smoothing"));
  EXPECT_THAT(error_of(R"({"label_smoothing": -0.1})"),
              HasSubstr("m.json at /loss/label_smoothing"));
  EXPECT_THAT(error_of(R"({"ignore_index": -100})"), HasSubstr("m.json at /loss/ignore_index"));
  EXPECT_THAT(error_of(R"({"ignore_index": 65536})"), HasSubstr("m.json at /loss/ignore_index"));
  EXPECT_THAT(error_of(R"({"ignore_index": 1.5})"), HasSubstr("m.json at /loss/ignore_index"));
}

// Ranks that train for different losses notice before step 0.
TEST(LossDescription, IsPartOfThePlansHash) {
  const auto hashes = [](const std::string& rest) {
    const ModelSpec model = parse_model(classifier(rest), "m.json");
    TestGraph test(model, onednn, {.batch = 2});
    return std::pair(content_hash(model), test.graph().plan().hash);
  };
  const auto plain = hashes("");
  EXPECT_EQ(hashes(R"(, "loss": {"type": "cross_entropy", "label_smoothing": 0})"), plain);
  for (const char* loss : {R"({"label_smoothing": 0.1})", R"({"ignore_index": 0})"}) {
    const auto other = hashes(std::string(R"(, "loss": )") + loss);
    EXPECT_NE(other.first, plain.first) << loss;
    EXPECT_NE(other.second, plain.second) << loss;
  }
}

// Two heads on one trunk, of which the second leaves it early.
std::string with_heads(const std::string& rest) {
  return R"({"name": "heads", "input": [2, 8, 6], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 18, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "early", "type": "linear", "out_features": 5},
    {"name": "conv2", "type": "conv2d", "inputs": ["relu1"], "out_channels": 7, "kernel": 3},
    {"name": "relu2", "type": "relu"},
    {"name": "fc", "type": "linear", "out_features": 5}])" +
         rest + "}";
}

TEST(AuxiliaryOutput, IsRead) {
  const ModelSpec model = parse_model(
      with_heads(
          R"(, "auxiliary": [{"output": "early", "weight": 0.4, "loss": {"label_smoothing": 0.1}}],
             "loss": {"ignore_index": 3})"),
      "m.json");
  ASSERT_EQ(model.output_count(), 2U);
  const auto name_of = [&](std::size_t k) {
    return model.layers[static_cast<std::size_t>(model.output_layer(k))].name;
  };
  EXPECT_EQ(name_of(0), "fc");
  EXPECT_EQ(name_of(1), "early");
  const ops::CrossEntropyDesc main = loss_of(model, 0, 4), early = loss_of(model, 1, 4);
  EXPECT_EQ(main.weight, 1);
  EXPECT_TRUE(main.counts_hits);
  EXPECT_EQ(main.label_smoothing, 0);
  EXPECT_EQ(early.weight, 0.4);
  EXPECT_FALSE(early.counts_hits);
  EXPECT_EQ(early.label_smoothing, 0.1);
  EXPECT_EQ(early.ignore_index, 3);
}

TEST(AuxiliaryOutput, ThatCannotBeIsRefusedWithItsPlace) {
  const auto error_of = [](const std::string& auxiliary) {
    try {
      parse_model(with_heads(R"(, "output": "fc", "auxiliary": )" + auxiliary), "m.json");
      return std::string("accepted");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(error_of(R"([{"output": "early"}])"), "accepted");
  EXPECT_THAT(error_of("[]"), HasSubstr("does not depend on the layer \"early\""));
  EXPECT_THAT(error_of(R"([{"weight": 1}])"), HasSubstr("m.json at /auxiliary/0"));
  EXPECT_THAT(error_of(R"([{"output": "earl"}])"),
              testing::AllOf(HasSubstr("m.json at /auxiliary/0/output"), HasSubstr("early")));
  EXPECT_THAT(error_of(R"([{"output": "early"}, {"output": "early"}])"),
              testing::AllOf(HasSubstr("m.json at /auxiliary/1/output"),
                             HasSubstr("is an output already")));
  EXPECT_THAT(error_of(R"([{"output": "early"}, {"output": "fc"}])"),
              HasSubstr("is an output already"));
  EXPECT_THAT(error_of(R"([{"output": "early"}, {"output": "relu2"}])"),
              testing::AllOf(HasSubstr("m.json at /layers/5"), HasSubstr("read by no layer")));
  EXPECT_THAT(error_of(R"([{"output": "early", "weight": 0}])"),
              HasSubstr("m.json at /auxiliary/0/weight"));
  EXPECT_THAT(error_of(R"([{"output": "early", "weight": -1}])"),
              HasSubstr("m.json at /auxiliary/0/weight"));
  EXPECT_THAT(error_of(R"([{"output": "early", "scale": 1}])"), HasSubstr("/auxiliary/0"));
  EXPECT_THAT(error_of(R"([{"output": "early", "loss": {"ignore_index": 2}}])"),
              HasSubstr("m.json at /auxiliary/0/loss/ignore_index"));
  EXPECT_THAT(error_of(R"([{"output": "early", "loss": {"label_smoothing": 2}}])"),
              HasSubstr("m.json at /auxiliary/0/loss/label_smoothing"));
  std::string other = with_heads(R"(, "auxiliary": [{"output": "early"}])");
  other.replace(other.find(R"("out_features": 5)"), 17, R"("out_features": 4)");
  EXPECT_THAT([&] { parse_model(other, "m.json"); },
              testing::ThrowsMessage<ConfigError>(
                  HasSubstr("m.json at /auxiliary/0/output: the auxiliary output \"early\" gives "
                            "[4], the output [5]")));
}

TEST(AuxiliaryOutput, IsPartOfTheHash) {
  const auto hash = [](const std::string& auxiliary) {
    return content_hash(parse_model(with_heads(R"(, "auxiliary": [)" + auxiliary + "]"), "m.json"));
  };
  const std::uint64_t plain = hash(R"({"output": "early"})");
  EXPECT_EQ(hash(R"({"output": "early", "weight": 1, "loss": {}})"), plain);
  EXPECT_NE(hash(R"({"output": "early", "weight": 0.5})"), plain);
  EXPECT_NE(hash(R"({"output": "early", "loss": {"label_smoothing": 0.5}})"), plain);
}

// Gradients of the trunk and of the heads for these output gradients, by name.
std::map<std::string, std::vector<float>> head_gradients(TestGraph& test, float main, float early) {
  Graph& graph = test.graph();
  graph.forward(test.stream(), test.input());
  const auto count = static_cast<std::size_t>(graph.batch() * graph.model().classes());
  const std::vector<float> values = random_values(count, 9);
  for (std::size_t k = 0; k < graph.model().output_count(); ++k) {
    const bool is_main = graph.model().output_layer(k) == graph.model().output;
    for (std::size_t i = 0; i < count; ++i) {
      graph.output_gradient(k)[i] = values[i] * (is_main ? main : early);
    }
  }
  graph.backward(test.stream());
  test.stream().synchronize();
  std::map<std::string, std::vector<float>> gradients;
  for (std::size_t i = 0; i < graph.plan().parameters.size(); ++i) {
    gradients[graph.plan().parameters[i].name] = test.gradient(i);
  }
  return gradients;
}

// The trunk's gradient is the sum of those of networks with either head alone.
TEST(AuxiliaryOutput, AddsItsGradientToTheTrunks) {
  const ModelSpec both =
      parse_model(with_heads(R"(, "auxiliary": [{"output": "early"}])"), "m.json");
  std::string early_text = with_heads("");
  const auto from = early_text.find(R"(,
    {"name": "conv2")");
  early_text.erase(from, early_text.rfind(']') - from);
  const ModelSpec early = parse_model(early_text, "early.json");
  ASSERT_EQ(early.layers.size(), 3U);
  for (const std::int64_t micro : {0, 4}) {
    for (const BackendMaker& backend : {BackendMaker(reference), BackendMaker(onednn)}) {
      TestGraph test(both, backend, {.batch = 8, .micro_batch = micro});
      TestGraph alone(early, backend, {.batch = 8, .micro_batch = micro});
      const std::vector<float> logits = alone.forward();
      test.forward();
      for (std::size_t i = 0; i < logits.size(); ++i) {
        EXPECT_NEAR(test.graph().output(1)[i], logits[i], 1e-5) << i;
      }
      const auto only_early = head_gradients(test, 0, 1), of_alone = head_gradients(alone, 1, 0);
      for (const auto& [name, values] : of_alone) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_NEAR(only_early.at(name)[i], values[i], 1e-4) << name;
        }
      }
      for (const float value : only_early.at("fc.weight")) EXPECT_EQ(value, 0);
      const auto only_main = head_gradients(test, 1, 0), sum = head_gradients(test, 1, 1);
      for (const auto& [name, values] : sum) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_NEAR(values[i], only_main.at(name)[i] + only_early.at(name)[i], 2e-4) << name;
        }
      }
    }
  }
}

TEST(MapNetwork, HasAPredictionForEachPixel) {
  const ModelSpec model = parse_model(map_network(), "m.json");
  EXPECT_EQ(model.logits_shape(), (ops::Shape{5, 4, 3}));
  EXPECT_EQ(model.classes(), 5);
  EXPECT_EQ(model.predictions(), 12);
  const ops::CrossEntropyDesc desc = loss_of(model, 0, 4);
  EXPECT_EQ(desc.classes, 5);
  EXPECT_EQ(desc.positions, 12);
}

// The output leaves the micro-batched part, which is the whole network here.
TEST(MapNetwork, GivesTheSameInMicroBatches) {
  const ModelSpec model = parse_model(map_network(), "m.json");
  TestGraph plain(model, reference, {.batch = 12, .micro_batch = 0});
  for (const std::int64_t micro : {0, 4, 6}) {
    TestGraph test(model, onednn, {.batch = 12, .micro_batch = micro});
    EXPECT_EQ(test.graph().micro_batch(), micro);
    const std::vector<float> want = plain.forward(), got = test.forward();
    ASSERT_EQ(want.size(), static_cast<std::size_t>(12 * 5 * 12));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
    plain.train();
    test.train();
    for (std::size_t t = 0; t < test.graph().plan().parameters.size(); ++t) {
      const std::vector<float> expected = plain.gradient(t), actual = test.gradient(t);
      // Sums of up to 12 * 72 products of numbers below 1.
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 2e-4) << micro << ' ' << t << ' ' << i;
      }
    }
  }
}

// Exit status of check_loss.py for the loss of a network, on made-up logits and labels, of which
// every fourth is `ignored`.
int compare_loss(const std::string& text, std::int32_t ignored) {
  const ModelSpec model = parse_model(text, "model.json");
  constexpr std::int64_t kLossBatch = 6;
  const ops::CrossEntropyDesc desc = loss_of(model, 0, kLossBatch);
  const auto predictions = static_cast<std::size_t>(kLossBatch * desc.positions);
  std::vector<float> logits =
      random_values(predictions * static_cast<std::size_t>(desc.classes), 5);
  for (float& value : logits) value *= 8;
  std::vector<float> label_values(predictions), gradient(logits.size());
  std::vector<std::int32_t> labels(predictions);
  std::size_t valid = 0;
  for (std::size_t i = 0; i < predictions; ++i) {
    labels[i] = i % 4 == 1 ? ignored : static_cast<std::int32_t>(i * 7 % 5);
    label_values[i] = static_cast<float>(labels[i]);
    valid += labels[i] != model.loss.ignore_index ? 1 : 0;
  }
  TestGraph test(parse_model(classifier(""), "m.json"), onednn, {.batch = 1});
  ops::LossTotals totals;
  test.backend().loss(test.stream(), desc,
                      {.logits = logits.data(),
                       .labels = labels.data(),
                       .samples = kLossBatch,
                       .grad_scale = 1.0F / static_cast<float>(valid),
                       .grad_logits = gradient.data(),
                       .totals = &totals});
  const fs::path folder = fs::temp_directory_path() / ("ddpbench_nn_loss_" + model.name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_file((folder / "model.json").string(), text);
  ops::Shape shape = model.logits_shape(), label_shape = {kLossBatch};
  label_shape.insert(label_shape.end(), shape.begin() + 1, shape.end());
  shape.insert(shape.begin(), kLossBatch);
  const auto loss = static_cast<float>(totals.loss_sum / static_cast<double>(valid));
  write_safetensors((folder / "batch.safetensors").string(),
                    {{"logits", shape, logits},
                     {"labels", label_shape, label_values},
                     {"loss", {1}, {loss}},
                     {"gradient", shape, gradient}},
                    false);
  const int status = run_python("check_loss.py", folder.string());
  fs::remove_all(folder);
  return status;
}

TEST(PyTorchLoss, IsTheSame) {
  const std::pair<std::string, std::int32_t> cases[] = {
      {classifier(""), 1},
      {classifier(R"(, "loss": {"label_smoothing": 0.1, "ignore_index": 3})"), 3},
      {map_network(), 1},
      {map_network(R"(, "loss": {"ignore_index": 255})"), 255},
      {map_network(R"(, "loss": {"label_smoothing": 0.2, "ignore_index": 255})"), 255}};
  for (const auto& [text, ignored] : cases) {
    const int status = compare_loss(text, ignored);
    if (status == kNoTorch) GTEST_SKIP() << "no torch (Debian: python3-torch)";
    EXPECT_EQ(status, 0) << text;
  }
}

}  // namespace
}  // namespace ddpbench::nn
