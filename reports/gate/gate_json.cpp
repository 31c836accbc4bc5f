// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate's result for programs, as schema/check-1.schema.json describes it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/gate/gate.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {
namespace {

constexpr int kCheckSchemaVersion = 1;
constexpr std::string_view kRefused = "NOT_COMPARED";

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json options_json(const GateOptions& options) {
  return {{"alpha", options.alpha},
          {"max_slowdown", options.max_slowdown},
          {"max_p95_slowdown", options.max_tail_slowdown},
          {"max_memory_growth", options.max_memory_growth},
          {"max_loss_increase", options.max_loss_increase},
          {"max_accuracy_drop", options.max_accuracy_drop},
          {"allow_mismatch", options.allow_mismatch}};
}

Json key_json(const PairKey& key, const std::string& setting) {
  return {{"kind", key.collective ? "collective" : "run"},
          {"strategy", key.strategy},
          {"world_size", key.world_size},
          {"servers", key.servers},
          {"bytes", key.collective ? Json(key.bytes) : Json(nullptr)},
          {"backend", text_or_null(key.backend)},
          {"setting", text_or_null(setting)}};
}

// A figure's value; a number of bytes is whole.
Json value_json(const FigureVerdict& figure, const std::optional<double>& value) {
  if (value && figure.name.ends_with("_bytes")) return std::llround(*value);
  return or_null(value);
}

Json figure_json(const FigureVerdict& figure) {
  return {{"figure", figure.name},
          {"verdict", to_string(figure.verdict)},
          {"baseline", value_json(figure, figure.base)},
          {"new", value_json(figure, figure.candidate)},
          {"baseline_as_measured", value_json(figure, figure.base_measured)},
          {"new_as_measured", value_json(figure, figure.candidate_measured)},
          {"minimum_effect", figure.minimum_effect},
          {"change", or_null(figure.change)},
          {"change_low", or_null(figure.change_low)},
          {"change_high", or_null(figure.change_high)},
          {"p_worse", or_null(figure.p_worse)},
          {"p_better", or_null(figure.p_better)},
          {"noise", or_null(figure.noise)},
          {"outliers", figure.outliers},
          {"repetitions_needed", or_null(figure.repetitions_needed)},
          {"note", text_or_null(figure.note)}};
}

Json pair_json(const PairVerdict& pair) {
  Json json = key_json(pair.key, pair.setting);
  json["verdict"] = to_string(pair.verdict);
  json["baseline_repetitions"] = pair.base_repetitions;
  json["new_repetitions"] = pair.candidate_repetitions;
  json["baseline_injected"] = text_or_null(pair.base_injected);
  json["new_injected"] = text_or_null(pair.candidate_injected);
  json["figures"] = Json::array();
  for (const FigureVerdict& figure : pair.figures) json["figures"].push_back(figure_json(figure));
  json["notes"] = pair.notes;
  return json;
}

Json uncompared_json(const UncomparedRuns& runs) {
  Json json = key_json(runs.key, runs.setting);
  json["side"] = runs.candidate ? "new" : "baseline";
  json["runs"] = runs.repetitions;
  json["reason"] = runs.reason;
  return json;
}

}  // namespace

nlohmann::ordered_json gate_json(const GateResult& result) {
  Json json = {{"check_schema_version", kCheckSchemaVersion},
               {"verdict", result.refusal.empty() ? to_string(result.verdict) : kRefused},
               {"error", text_or_null(result.refusal)},
               {"options", options_json(result.options)},
               {"tests", result.tests}};
  json["pairs"] = Json::array();
  for (const PairVerdict& pair : result.pairs) json["pairs"].push_back(pair_json(pair));
  json["not_compared"] = Json::array();
  for (const UncomparedRuns& runs : result.uncompared) {
    json["not_compared"].push_back(uncompared_json(runs));
  }
  json["notes"] = result.notes;
  return json;
}

std::string render_gate_json(const GateResult& result) { return json_text(gate_json(result)); }

}  // namespace ddpbench::report
