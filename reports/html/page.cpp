// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/html/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

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
  constexpr std::size_t kNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(input.names.size(), kNamed); ++i) {
    names += (i > 0 ? ", " : "") + input.names[i];
  }
  if (input.names.size() > kNamed)
    names += fmt::format(" and {} more", input.names.size() - kNamed);
  return fmt::format("{}: {} (ddpbench)", names, subject_of(input));
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

void write_theme_switch(Markup& page) {
  page.open("div", {{"class", "theme"}, {"role", "group"}, {"aria-label", "Colours"}});
  for (const char* theme : {"auto", "light", "dark"}) {
    const bool chosen = std::string_view(theme) == "auto";
    page.leaf(
        "button",
        {{"type", "button"}, {"data-theme", theme}, {"aria-pressed", chosen ? "true" : "false"}},
        theme);
  }
  page.close();
}

// The ids of sections and their words in the navigation.
std::vector<std::pair<const char*, const char*>> links_of(const HtmlInput& input) {
  const bool runs = has_runs(input);
  std::vector<std::pair<const char*, const char*>> links = {{"summary", "Summary"}};
  const auto add = [&](bool there, const char* id, const char* words) {
    if (there) links.emplace_back(id, words);
  };
  add(has_collectives(input), "collectives", "Collectives");
  add(runs, "runs", "Runs");
  add(runs, "pictures", "Pictures");
  add(has_verdicts(input), "verdicts", "Why not faster");
  add(input.gate.has_value(), "gate", "Baseline");
  add(runs, "verification", "Verification");
  add(true, "details", "Details");
  return links;
}

void write_top(Markup& page, const HtmlInput& input) {
  page.leaf("a", {{"class", "skip"}, {"href", "#summary"}}, "Skip to the summary");
  page.open("header").open("div", {{"class", "top"}});
  page.leaf("p", {{"class", "program"}}, "ddpbench report");
  write_theme_switch(page);
  page.close().leaf("h1", subject_of(input));
  page.open("nav", {{"aria-label", "Sections"}}).open("ul");
  for (const auto& [id, words] : links_of(input)) {
    page.open("li").leaf("a", {{"href", std::string("#") + id}}, words).close();
  }
  page.close().close().close().trusted("\n");
}

void write_foot(Markup& page, const HtmlInput& input) {
  page.open("footer").leaf(
      "p", fmt::format("Made by {} from {}.", build_words(input.reports.front().generator),
                       counted(input.reports.size(), "report")));
  page.close();
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

void open_section(Markup& page, const std::string& id, const std::string& heading) {
  page.open("section", {{"id", id}, {"aria-labelledby", id + "-heading"}});
  page.leaf("h2", {{"id", id + "-heading"}}, heading);
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
  write_summary(page, input);
  if (has_collectives(input)) write_collectives(page, input);
  if (has_runs(input)) {
    write_runs(page, input);
    write_history(page, input);
    write_pictures(page, input);
  }
  if (has_verdicts(input)) write_verdicts(page, input);
  if (input.gate) write_gate(page, *input.gate);
  if (has_runs(input)) write_verification(page, input);
  write_details(page, input);
  page.close();
  write_foot(page, input);
  page.leaf("div", {{"id", "tip"}, {"role", "status"}, {"hidden", "hidden"}}, "");
  page.open("script").trusted(kScript.text).close();
  page.close().close().trusted("\n");
  return page.take();
}

}  // namespace ddpbench::report
