// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables of records in every format.
#include "reports/exports/records.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"

namespace ddpbench::report {
namespace {

Records planets() {
  Records records;
  records.name = "planets";
  records.caption = "two of eight";
  records.columns = {{.key = "name", .top = "", .bottom = "planet", .left = true},
                     {.key = "path"},
                     {.key = "moons", .top = "known", .bottom = "moons"},
                     {.key = "mass_kg", .top = "mass", .bottom = "10^24 kg"}};
  records.rows = {
      {{"Mars, red", "Mars, red"}, {"a|b", "a|b"}, {std::int64_t{2}, "2"}, {0.64, "0.64"}},
      {{"Venus", "Venus"}, {"c", "c"}, {{}, "-"}, {4.87, "4.87"}}};
  records.notes = {"as of 2024"};
  return records;
}

TEST(Records, AreATableWithoutTheColumnsForPrograms) {
  EXPECT_EQ(render_records(planets(), "table", 0),
            "two of eight\n"
            "\n"
            "           known      mass\n"
            "planet     moons  10^24 kg\n"
            "Mars, red      2      0.64\n"
            "Venus          -      4.87\n"
            "\n"
            "as of 2024\n");
}

TEST(Records, AreMarkdown) {
  EXPECT_EQ(render_records(planets(), "markdown", 0),
            "two of eight\n\n"
            "| planet | known moons | mass 10^24 kg |\n"
            "| :-- | --: | --: |\n"
            "| Mars, red | 2 | 0.64 |\n"
            "| Venus | - | 4.87 |\n\n"
            "- as of 2024\n");
}

TEST(Records, AreCsvWithAllColumns) {
  EXPECT_EQ(render_records(planets(), "csv", 0),
            "name,path,moons,mass_kg\n\"Mars, red\",a|b,2,0.64\nVenus,c,,4.87\n");
}

TEST(Records, AreJsonWithAllColumns) {
  EXPECT_EQ(render_records(planets(), "json", 0), R"({
  "caption": "two of eight",
  "planets": [
    {
      "name": "Mars, red",
      "path": "a|b",
      "moons": 2,
      "mass_kg": 0.64
    },
    {
      "name": "Venus",
      "path": "c",
      "moons": null,
      "mass_kg": 4.87
    }
  ],
  "notes": [
    "as of 2024"
  ]
}
)");
}

TEST(Records, KnowNoOtherFormat) {
  EXPECT_THROW(render_records(planets(), "xml", 0), InternalError);
}

}  // namespace
}  // namespace ddpbench::report
