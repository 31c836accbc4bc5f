// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench predict`: how fast measured settings would be on other numbers of devices.
#include "reports/predict/prediction.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "bench/run/report_output.h"
#include "parallel/comm/communicator.h"
#include "reports/json/report_json.h"

namespace ddpbench::bench {
namespace {

using report::Report;

// Reads "2.5/h", or "2.5". Throws ConfigError.
double price_per_h(const std::string& text) {
  const std::string number = text.ends_with("/h") ? text.substr(0, text.size() - 2) : text;
  const double price = number_in<double>(number).value_or(-1);
  if (price >= 0 && price < 1e9) return price;
  throw ConfigError(fmt::format(
      "predict: --price={}: expected the price of a device for an hour, as 2.5/h", text));
}

class Predict final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "", paths_,
                      "Report of what was measured, best on one and two devices", true);
    options.add("--gpus", "N,...", &devices_, "Numbers of devices to predict (required)",
                between(1, kMostDevices));
    options.add("--comm", "REPORT", &comm_,
                "What `ddpbench comm` measured of the network [as in REPORT]");
    options.add("--link", "RATE,LATENCY", &link_,
                "A network instead: of each device's link, 25Gbit,50us");
    options.add("--price", "NUMBER/h", &price_,
                "Of a device for an hour: prints what a training costs");
    options.add("--json", "FILE", &output_.path, "Write a report of the predictions");
    options.add("--force", "", &output_.force, "Overwrite FILE");
    options.set_footer(
        "A training: the epochs of REPORT over its whole data set. docs/prediction.md has the "
        "model, and how far it was off.");
  }

  int run() override {
    report::PredictionOptions options;
    if (devices_.empty())
      throw ConfigError("predict: --gpus is missing; write it as --gpus=4,8,64");
    options.devices = devices_;
    if (price_) options.price_per_h = price_per_h(*price_);
    if (paths_.size() > 1) throw ConfigError("predict: several reports; give one");
    if (comm_ && link_) throw ConfigError("predict: --comm and --link exclude each other");
    std::vector<std::string> inputs = paths_;
    if (comm_) inputs.push_back(*comm_);
    output_.check("predict", inputs);
    const Report measured = report::read_report(paths_.front());
    set_cost(options);
    const auto rows = report::predict(measured, paths_.front(), options);
    say_table(report::prediction_text(rows, options, terminal_width()));
    if (output_.path.empty()) return 0;
    Report predictions = report::predicted_report(measured, rows);
    predictions.started_at = predictions.finished_at = utc_timestamp();
    predictions.argv = command_line;
    output_.write(report::report_text(predictions));
    say("report: {}\n", output_.path);
    return 0;
  }

 private:
  void set_cost(report::PredictionOptions& options) const {
    options.cost_words = "as in these runs";
    if (link_) {
      const comm::Link link = comm::parse_link(*link_, "predict: --link");
      options.cost.emplace(link.latency_s, link.bytes_per_s);
      options.cost_words = "over links of " + *link_;
    }
    if (!comm_) return;
    const Report network = report::read_report(*comm_);
    options.cost.emplace(network.collectives, *comm_);
    options.cost_words = "as in " + *comm_;
  }

  std::vector<std::string> paths_;
  std::vector<int> devices_;
  std::optional<std::string> comm_, link_, price_;
  TextOutput output_;
};

}  // namespace

SubcommandEntry predict_entry() {
  return {"predict", "ddpbench predict REPORT --gpus=N,... [OPTION]...",
          "predict steps, time and price on numbers of devices that were not measured",
          [] { return std::make_unique<Predict>(); }};
}

}  // namespace ddpbench::bench
