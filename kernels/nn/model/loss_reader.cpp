// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/loss_reader.h"

#include <array>

#include "base/error.h"
#include "base/nearest_name.h"

namespace ddpbench::nn {
namespace {

using namespace std::string_view_literals;

constexpr std::array kLossNames = {"cross_entropy"sv};
constexpr double kLargestWeight = 1000;

void check_type(const JsonReader& json) {
  const std::string word = json.string("the loss's type");
  if (word == kLossNames[0]) return;
  json.fail(
      fmt::format("unknown loss \"{}\"{}", message_text(word), nearest_or_all(word, kLossNames)));
}

double read_smoothing(const JsonReader& json) {
  if (!json.has("label_smoothing")) return 0;
  return json.at("label_smoothing").number("label_smoothing", 0, 1);
}

AuxiliaryEntry read_entry(const JsonReader& json) {
  constexpr std::array kKeys = {"output"sv, "weight"sv, "loss"sv};
  constexpr std::array kLossKeys = {"type"sv, "label_smoothing"sv};
  json.expect_object("an auxiliary output");
  json.expect_keys("an auxiliary output", kKeys);
  AuxiliaryEntry entry;
  const JsonReader name = json.at("output");
  entry.name = name.string("output");
  entry.pointer = name.pointer();
  if (json.has("weight")) {
    const JsonReader weight = json.at("weight");
    entry.output.weight = weight.number("weight", 0, kLargestWeight);
    if (entry.output.weight == 0) weight.fail("a weight of 0 trains nothing; leave the output out");
  }
  if (!json.has("loss")) return entry;
  const JsonReader loss = json.at("loss");
  loss.expect_object("a loss");
  if (loss.has("ignore_index")) {
    loss.at("ignore_index")
        .fail("an auxiliary output has the labels of the output, whose ignore_index holds for it");
  }
  loss.expect_keys("an auxiliary output's loss", kLossKeys);
  if (loss.has("type")) check_type(loss.at("type"));
  entry.output.label_smoothing = read_smoothing(loss);
  return entry;
}

}  // namespace

LossSpec read_loss(const JsonReader& json) {
  constexpr std::array kKeys = {"type"sv, "label_smoothing"sv, "ignore_index"sv};
  json.expect_object("a loss");
  json.expect_keys("a loss", kKeys);
  if (json.has("type")) check_type(json.at("type"));
  LossSpec loss;
  loss.label_smoothing = read_smoothing(json);
  if (json.has("ignore_index")) {
    loss.ignore_index = static_cast<std::int32_t>(
        json.at("ignore_index").integer("ignore_index, a label,", 0, kLargestLabel));
  }
  return loss;
}

std::vector<AuxiliaryEntry> read_auxiliary(const JsonReader& json) {
  std::vector<AuxiliaryEntry> entries;
  for (const JsonReader& element : json.elements("auxiliary")) {
    if (entries.size() == kMostAuxiliaryOutputs) {
      json.fail(fmt::format("a network has at most {} auxiliary outputs", kMostAuxiliaryOutputs));
    }
    entries.push_back(read_entry(element));
  }
  return entries;
}

}  // namespace ddpbench::nn
