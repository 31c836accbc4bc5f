// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of known data sets, and the search in it.
#include "datasets/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "datasets/dataset.h"

namespace ddpbench::data {
namespace {

// Sizes and SHA-256 were taken from files whose MD5 sums are those of the originals. MNIST comes
// from the PyTorch project's mirror, which torchvision uses; Fashion-MNIST from its authors'
// server.
constexpr std::array<CatalogEntry, 2> kCatalog = {{
    {.name = "mnist",
     .base_url = "https://ossci-datasets.s3.amazonaws.com/mnist/",
     .files = {{
         {"train-images-idx3-ubyte",
          {9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
          {47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}},
         {"train-labels-idx1-ubyte",
          {28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
          {60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"}},
         {"t10k-images-idx3-ubyte",
          {1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
          {7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}},
         {"t10k-labels-idx1-ubyte",
          {4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
          {10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
     }},
     .synthesizable = true},
    {.name = "fashion-mnist",
     .base_url = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
     .files = {{
         {"train-images-idx3-ubyte",
          {26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
          {47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"}},
         {"train-labels-idx1-ubyte",
          {29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
          {60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"}},
         {"t10k-images-idx3-ubyte",
          {4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
          {7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"}},
         {"t10k-labels-idx1-ubyte",
          {5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"},
          {10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}},
     }}},
}};

// Levenshtein distance: insertions, deletions and replacements that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const CatalogEntry> catalog() { return kCatalog; }

const CatalogEntry& find_in_catalog(std::string_view name) {
  const auto* found = std::ranges::find(kCatalog, name, &CatalogEntry::name);
  if (found != kCatalog.end()) return *found;
  const auto* nearest = std::ranges::min_element(
      kCatalog, {}, [&](const CatalogEntry& entry) { return edit_distance(entry.name, name); });
  throw ConfigError(fmt::format("unknown data set \"{}\"; did you mean \"{}\"? Known are: {}", name,
                                nearest->name, fmt::join(known_datasets(), ", ")));
}

std::vector<std::string> known_datasets() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : kCatalog) names.emplace_back(entry.name);
  return names;
}

}  // namespace ddpbench::data
