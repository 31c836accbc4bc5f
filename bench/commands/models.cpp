// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "bench/plan/data_places.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/model/parts.h"
#include "reports/exports/records.h"

namespace ddpbench::bench {
namespace {

constexpr double kMega = 1e6, kGiga = 1e9;

report::RecordCell number(double value, const char* format) {
  return {value, fmt::format(fmt::runtime(format), value)};
}

std::vector<report::RecordCell> record_of(const nn::ModelSpec& model, const std::string& path) {
  const nn::ModelCost cost = nn::cost_of(model);
  const double per_flop = cost.gradient_bytes_per_flop();
  return {{model.name, model.name},
          {path, path},
          {ops::to_string(model.input_shape), ops::to_string(model.input_shape)},
          {model.classes(), std::to_string(model.classes())},
          {cost.parameters, std::to_string(cost.parameters)},
          number(static_cast<double>(cost.gradient_bytes()) / kMega, "{:.2f}"),
          number(cost.forward_flops / kGiga, "{:.4g}"),
          number(cost.step_flops() / kGiga, "{:.4g}"),
          number(static_cast<double>(cost.activation_bytes) / kMega, "{:.3f}"),
          number(per_flop, "{:.3g}"),
          {cost.trained, std::to_string(cost.trained)}};
}

report::Records records_of(const std::vector<std::string>& paths) {
  report::Records records;
  records.name = "networks";
  records.columns = {
      {.key = "name", .top = "", .bottom = "network", .left = true},
      {.key = "path"},
      {.key = "input", .top = "", .bottom = "input", .left = true},
      {.key = "outputs", .top = "", .bottom = "outputs"},
      {.key = "parameters", .top = "", .bottom = "parameters"},
      {.key = "gradient_mb", .top = "gradients", .bottom = "MB"},
      {.key = "forward_gflop_per_sample", .top = "forward", .bottom = "GFLOP"},
      {.key = "step_gflop_per_sample", .top = "with back-", .bottom = "ward GFLOP"},
      {.key = "activation_mb_per_sample", .top = "activations", .bottom = "MB"},
      {.key = "gradient_bytes_per_flop", .top = "gradients", .bottom = "B/FLOP"},
      {.key = "trainable_parameters", .top = "trainable", .bottom = "parameters"},
  };
  for (const std::string& path : paths) {
    records.rows.push_back(record_of(nn::load_model_file(path), path));
  }
  records.notes = {
      "GFLOP and activations are of one sample. MB = 10^6 bytes; all numbers are fp32.",
      "Operations: 2 for each multiplication with an addition of convolutions and linear layers. "
      "Backward takes as many for the gradients of weights and again for those of inputs, which "
      "images do not need.",
      "Activations: the outputs of all layers; a ReLU that alone reads its input works in place. "
      "`ddpbench fit` plans the memory of a run.",
      "B/FLOP: gradient bytes sent per operation of a sample, forward and backward. Small: easy to "
      "scale. A batch of n samples per device divides it by n."};
  return records;
}

// Where the layers of each network may be split over devices (--cut).
report::Records cuts_of(const std::vector<std::string>& paths) {
  report::Records records;
  records.name = "cuts";
  records.columns = {{.key = "network", .top = "", .bottom = "network", .left = true},
                     {.key = "cut", .top = "", .bottom = "cut behind", .left = true},
                     {.key = "value", .top = "", .bottom = "value that crosses", .left = true},
                     {.key = "kilobytes_per_sample", .top = "it has", .bottom = "kB a sample"},
                     {.key = "share_before", .top = "operations", .bottom = "before, %"}};
  for (const std::string& path : paths) {
    const nn::ModelSpec model = nn::load_model_file(path);
    const double all = nn::cost_of(model).step_flops();
    for (const nn::Cut& cut : nn::possible_cuts(model)) {
      const nn::LayerSpec& layer = model.layers[static_cast<std::size_t>(cut.layer)];
      const std::string shape = ops::to_string(layer.output_shape);
      const auto bytes = ops::element_count(layer.output_shape) * std::int64_t{sizeof(float)};
      records.rows.push_back({{model.name, model.name},
                              {layer.name, layer.name},
                              {shape, shape},
                              number(static_cast<double>(bytes) / 1e3, "{:.1f}"),
                              number(all > 0 ? 100 * cut.flops_before / all : 0, "{:.1f}")});
    }
  }
  records.notes = {
      "The layers behind which --strategy=pipeline --cut=LAYER,... may end a part: "
      "exactly one value crosses. Operations: of forward and backward."};
  return records;
}

class Models final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("NETWORK", "NAME|FILE ...", names_,
                      "Networks: names in configs/models, or files; all built-in ones without");
    options.add("--cuts", "", &cuts_, "Where the layers can be split over devices");
    options.add("--format", "", &format_, "How", one_of(report::record_formats()));
    options.set_footer("Nothing is trained, and no device is used.");
  }

  int run() override {
    const std::vector<std::string> paths =
        names_.empty() ? built_in_models() : mapped(names_, find_model);
    if (paths.empty()) throw ConfigError("models: configs/models has no networks");
    const int width = format_ == "table" ? terminal_width() : 0;
    const report::Records records = cuts_ ? cuts_of(paths) : records_of(paths);
    say("{}", report::render_records(records, format_, static_cast<std::size_t>(width)));
    return 0;
  }

 private:
  std::vector<std::string> names_;
  std::string format_ = "table";
  bool cuts_ = false;
};

}  // namespace

SubcommandEntry models_entry() {
  return {"models", "ddpbench models [NETWORK]... [OPTION]...",
          "show networks' parameters, operations and memory, without training",
          [] { return std::make_unique<Models>(); }};
}

}  // namespace ddpbench::bench
