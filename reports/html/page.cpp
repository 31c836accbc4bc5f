// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/html/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "reports/html/sections.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report {
namespace html {
namespace {

// The page may load and send nothing. Only its own style and script apply, by their hashes, so that
// text which got through as markup would do nothing.
std::string security_policy() {
  return fmt::format(
      "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; "
      "form-action 'none'",
      kStyle.hash, kScript.hash);
}

// "monday.json, tuesday.json: simple_cnn on mnist (ddpbench)": tabs show the beginning.
std::string title_of(const HtmlInput& input) {
  return fmt::format("{}: {} (ddpbench)", fmt::join(input.names, ", "), subject_of(input));
}

void write_head(Markup& page, const HtmlInput& input) {
  page.open("head").empty("meta", {{"charset", "utf-8"}});
  page.empty("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", security_policy()}});
  page.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  page.empty("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  page.empty("meta", {{"name", "referrer"}, {"content", "no-referrer"}});
  // Without an icon, browsers ask the page's server for favicon.ico.
  page.empty("link", {{"rel", "icon"}, {"href", "data:,"}});
  page.leaf("title", title_of(input));
  page.open("style").trusted(kStyle.text).close();
  page.close().trusted("\n");
}

struct Section {
  const char *id, *link, *heading;  // `link`: the heading in the navigation
  void (*write)(Markup&, const HtmlInput&);
  bool (*is_there)(const HtmlInput&) = [](const HtmlInput&) { return true; };
};
constexpr Section kSections[] = {
    {"summary", "Summary", "Summary", write_summary},
    {"collectives", "Collectives", "Collectives", write_collectives, has_collectives},
    {"runs", "Runs", "Runs", write_runs, has_runs},
    {"history", "Commits", "Over commits", write_history, has_history},
    {"pictures", "Pictures", "Pictures", write_pictures, has_runs},
    {"verdicts", "Why not faster", "Why not faster", write_verdicts, has_verdicts},
    {"gate", "Baseline", "Against the baseline", write_gate,
     [](const HtmlInput& input) { return input.gate.has_value(); }},
    {"verification", "Verification", "Verification", write_verification, has_runs},
    {"details", "Details", "Environment and configuration", write_details}};

void write_sections(Markup& page, const HtmlInput& input) {
  for (const Section& section : kSections) {
    if (!section.is_there(input)) continue;
    const std::string heading = std::string(section.id) + "-heading";
    page.open("section", {{"id", section.id}, {"aria-labelledby", heading}});
    page.leaf("h2", {{"id", heading}}, section.heading);
    section.write(page, input);
    page.close().trusted("\n");
  }
}

// "ddpbench, 2 CPU cores, 2026-11-26": what measured, on what, and when.
std::string origin_of(const HtmlInput& input) {
  const Report& report = input.reports.front();
  if (input.reports.size() > 1) return "ddpbench, " + counted(input.reports.size(), "report");
  const bool on_gpu = !report.runs.empty() && report.runs[0].device == "cuda";
  std::vector<std::string> parts = {
      "ddpbench",
      on_gpu ? report.runs[0].device_model : counted(report.environment.cpu.cores, "CPU core"),
      report.started_at.substr(0, report.started_at.find('T'))};
  std::erase(parts, "");
  return joined(parts, ", ");
}

void write_top(Markup& page, const HtmlInput& input) {
  page.leaf("a", {{"class", "skip"}, {"href", "#summary"}}, "Skip to the summary");
  page.open("header").open("div", {{"class", "top"}});
  page.leaf("h1", subject_of(input)).leaf("p", {{"class", "program"}}, origin_of(input));
  page.close();
  page.open("nav", {{"aria-label", "Sections"}}).open("ul");
  for (const Section& section : kSections) {
    if (!section.is_there(input)) continue;
    page.open("li").leaf("a", {{"href", std::string("#") + section.id}}, section.link).close();
  }
  page.close().close().close().trusted("\n");
}

}  // namespace

bool has_collectives(const HtmlInput& input) {
  return std::ranges::any_of(input.reports,
                             [](const Report& report) { return !report.collectives.empty(); });
}

bool has_runs(const HtmlInput& input) {
  return !std::ranges::all_of(input.reports, [](const Report& report) {
    return report.runs.empty() && !report.collectives.empty();
  });
}

}  // namespace html

std::string html_page(const HtmlInput& input) {
  using namespace html;
  Markup page;
  page.trusted("<!DOCTYPE html>\n").open("html", {{"lang", "en"}});
  write_head(page, input);
  page.open("body");
  page.open("svg", {{"class", "hatches"}, {"aria-hidden", "true"}});
  pictures::write_hatches(page);
  page.close();
  write_top(page, input);
  page.open("main");
  write_sections(page, input);
  page.close();
  page.leaf("div", {{"id", "tip"}, {"role", "status"}, {"hidden", "hidden"}}, "");
  page.open("script").trusted(kScript.text).close();
  page.close().close().trusted("\n");
  return page.take();
}

}  // namespace ddpbench::report
