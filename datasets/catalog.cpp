// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of known data sets, the search in it, and where a data set is looked for.
#include "datasets/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/ranges.h"
#include "datasets/readers.h"
#include "datasets/synthetic.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

// A data set in MNIST's format. `names`: how its files to train and to test begin, and those of
// labels end; `prints`: of each file, where they can be downloaded.
CatalogEntry idx_row(std::string_view name, std::string_view base_url,
                     std::vector<std::string_view> folders, int classes, std::int64_t train,
                     std::int64_t test, double mean, double deviation,
                     const std::array<std::string, 3>& names,
                     const std::vector<Fingerprint>& prints = std::vector<Fingerprint>(4)) {
  return {.name = name,
          .base_url = base_url,
          .files = {{names[0] + "-images-idx3-ubyte.gz", prints[0]},
                    {names[0] + "-labels-" + names[2] + ".gz", prints[1]},
                    {names[1] + "-images-idx3-ubyte.gz", prints[2]},
                    {names[1] + "-labels-" + names[2] + ".gz", prints[3]}},
          .folders = std::move(folders),
          .signs = forms_of(names[0] + "-images-idx3-ubyte.gz"),
          .channels = 1,
          .height = 28,
          .width = 28,
          .classes = classes,
          .train_samples = train,
          .test_samples = test,
          .mean = {mean},
          .deviation = {deviation},
          .open = open_idx_dataset,
          .synthesizes = "digits"};  // where there is a generator
}

// A part of EMNIST (Cohen et al. 2017). Letters have the labels 1 to 26.
CatalogEntry emnist(const char* name, int classes, std::int64_t train, std::int64_t test,
                    double mean, double deviation) {
  return idx_row(name, "", {"EMNIST/raw", "EMNIST", "emnist", "gzip", ""}, classes, train, test,
                 mean, deviation,
                 {fmt::format("{}-train", name), fmt::format("{}-test", name), "idx1-ubyte"});
}

SyntheticRequest synthetic_request(const CatalogEntry& entry, const DatasetRequest& request) {
  DatasetInfo info = info_of_files(entry, "");
  info.train_samples = entry.train_samples;
  info.test_samples = entry.test_samples;
  if (entry.takes_any_shape()) {
    info.channels = request.channels;
    info.classes = request.classes;
  }
  if (entry.takes_any_size()) {
    info.train_samples = info.test_samples = 0;
    info.height = request.height;
    info.width = request.width;
    info.label_height = request.label_height;
    info.label_width = request.label_width;
  }
  return {.info = info, .seed = request.seed, .ignored_label = request.ignored_label};
}

const std::vector<double> kImageNetMean = {0.485, 0.456, 0.406};
const std::vector<double> kImageNetDeviation = {0.229, 0.224, 0.225};

}  // namespace

// Sizes and SHA-256 were taken from files whose MD5 sums are those of the originals. MNIST comes
// from the PyTorch project's mirror, which torchvision uses; Fashion-MNIST from its authors'
// server, CIFAR-10 from its authors' (the archive's checksum is also that of TensorFlow Datasets
// and of Red Datasets), VOC2012 from its authors' (the sum is Keras's and torchvision's). Means and
// deviations were computed from the training images; those of KMNIST and EMNIST are in common use,
// and QMNIST's images are MNIST's.
std::span<const CatalogEntry> catalog() {
  static const std::vector<CatalogEntry> entries = [] {
    std::vector<CatalogEntry> all = {
        idx_row("mnist", "https://ossci-datasets.s3.amazonaws.com/mnist/", {"MNIST/raw", "MNIST"},
                10, 60000, 10000, 0.1307, 0.3081, {"train", "t10k", "idx1-ubyte"},
                {{9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                 {28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                 {1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                 {4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}),
        idx_row("fashion-mnist", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                {"FashionMNIST/raw", "FashionMNIST", "fashion-mnist/data/fashion"}, 10, 60000,
                10000, 0.2860, 0.3530, {"train", "t10k", "idx1-ubyte"},
                {{26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
                 {29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
                 {4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
                 {5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}),
        {.name = "cifar10",
         .base_url = "https://www.cs.toronto.edu/~kriz/",
         .files = {{"cifar-10-binary.tar.gz",
                    {170052171,
                     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}}},
         .unpacks_to = "cifar-10-batches-bin",
         .folders = {"cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", ""},
         .signs = {"test_batch.bin", "cifar-10-binary.tar.gz", "cifar-10-batches-py",
                   "cifar-10-python.tar.gz", "batches.meta"},
         .channels = 3,
         .height = 32,
         .width = 32,
         .classes = 10,
         .train_samples = 50000,
         .test_samples = 10000,
         .mean = {0.4914, 0.4822, 0.4465},
         .deviation = {0.2470, 0.2435, 0.2616},
         .open = open_cifar_dataset,
         .synthesize = make_synthetic_images,
         .synthesizes = "images"},
        idx_row("kmnist", "", {"KMNIST/raw", "KMNIST"}, 10, 60000, 10000, 0.1918, 0.3483,
                {"train", "t10k", "idx1-ubyte"}),
        idx_row("qmnist", "", {"QMNIST/raw", "QMNIST", ""}, 10, 60000, 60000, 0.1307, 0.3081,
                {"qmnist-train", "qmnist-test", "idx2-int"}),
        emnist("emnist-balanced", 47, 112800, 18800, 0.1751, 0.3332),
        emnist("emnist-byclass", 62, 697932, 116323, 0.1736, 0.3316),
        emnist("emnist-bymerge", 47, 697932, 116323, 0.1736, 0.3316),
        emnist("emnist-digits", 10, 240000, 40000, 0.1733, 0.3316),
        emnist("emnist-letters", 27, 124800, 20800, 0.1722, 0.3309),
        emnist("emnist-mnist", 10, 60000, 10000, 0.1733, 0.3317),
        // Images are cut to the size of the network's. Mean and deviation are those of ImageNet, as
        // in torchvision's references and for its weights.
        {.name = "image-folder",
         .folders = {""},
         .channels = 3,
         .mean = kImageNetMean,
         .deviation = kImageNetDeviation,
         .open = open_image_folder,
         .how_to_get = "it is a folder with train/CLASS/*.jpg and val/CLASS/*.jpg"},
        // The segmentation part of it (Everingham et al. 2012) has maps of labels.
        {.name = "voc2012",
         .base_url = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
         .files = {{"VOCtrainval_11-May-2012.tar",
                    {1999639040,
                     "e14f763270cf193d0b5f74b169f44157a4b0c6efa708f4dd0ff78ee691763bcb"}}},
         .unpacks_to = "VOCdevkit/VOC2012",
         .folders = {"voc2012/VOCdevkit/VOC2012", "VOCdevkit/VOC2012", "VOC2012", ""},
         .channels = 3,
         .classes = 21,
         .train_samples = 1464,
         .test_samples = 1449,
         .mean = kImageNetMean,
         .deviation = kImageNetDeviation,
         .open = open_voc,
         .synthesize = make_synthetic_images,
         .synthesizes = "images"},
        // Takes the shape and the classes of the network that is trained on it.
        {.name = kSyntheticName,
         .mean = {kSyntheticMean},
         .deviation = {kSyntheticDeviation},
         .synthesize = make_synthetic_images,
         .synthesizes = "images"},
    };
    all.front().synthesize = make_synthetic_digits;
    all.front().signs.insert(all.front().signs.end(), {"mnist.npz", "mnist.pkl.gz"});
    return all;
  }();
  return entries;
}

std::string find_nearby(const CatalogEntry& entry, const std::string& directory) {
  constexpr int kDeepest = 2, kMostLookedAt = 4096;
  const fs::path top = (fs::path(directory) / "").parent_path();  // with no slash behind it
  std::error_code error;
  fs::recursive_directory_iterator at(top, fs::directory_options::skip_permission_denied, error);
  for (int seen = 0; !error && at != fs::end(at) && seen < kMostLookedAt; ++seen) {
    const fs::path path = at->path();
    const auto is_of = [&](const CatalogEntry& one) {
      return std::ranges::count(one.signs, path.filename().string()) > 0;
    };
    const auto is_read_as = [&](const CatalogEntry& one) {
      return is_of(one) && one.name != entry.name &&
             std::ranges::count(places_of(one, top), path.parent_path()) > 0;
    };
    if (is_of(entry) && std::ranges::none_of(catalog(), is_read_as)) {
      return fmt::format(
          "{} is not read: put {}'s binary files (no pickles) into {}; {}, or "
          "--dataset=synthetic draws images",
          path.string(), entry.name, (top / entry.name).string(), how_to_get(entry));
    }
    if (at.depth() == kDeepest) at.disable_recursion_pending();
    at.increment(error);
  }
  return "";
}

std::string how_to_get(const CatalogEntry& entry) {
  if (!entry.how_to_get.empty()) return std::string(entry.how_to_get);
  if (entry.base_url.empty()) return "torchvision downloads it";
  return fmt::format("`ddpbench data fetch {}` downloads it", entry.name);
}

const CatalogEntry& find_in_catalog(std::string_view name) {
  const auto found = std::ranges::find(catalog(), name, &CatalogEntry::name);
  if (found != catalog().end()) return *found;
  const std::vector<std::string> known = known_datasets();
  std::vector<std::string> meant;  // "emnist" is known by its splits alone
  std::ranges::copy_if(known, std::back_inserter(meant), [&](const std::string& one) {
    return one.starts_with(std::string(name) + "-");
  });
  const auto nearest = nearest_name(std::string(name), known);
  if (meant.empty() && nearest) meant = {*nearest};
  throw ConfigError(fmt::format(
      "unknown data set \"{}\"{} Known are: {}", name,
      meant.empty() ? "." : fmt::format("; did you mean \"{}\"?", fmt::join(meant, "\" or \"")),
      fmt::join(known, ", ")));
}

std::vector<std::string> known_datasets() {
  return mapped(catalog(), [](const CatalogEntry& entry) { return std::string(entry.name); });
}

std::vector<std::string> published_datasets() {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog()) {
    if (!entry.base_url.empty()) names.emplace_back(entry.name);
  }
  return names;
}

bool fits(const CatalogEntry& entry, std::int64_t channels, std::int64_t height, std::int64_t width,
          std::int64_t outputs) {
  if (entry.takes_any_shape()) return true;
  return entry.channels == channels && entry.height == height && entry.width == width &&
         entry.classes <= outputs;
}

std::unique_ptr<DatasetSource> open_dataset(const DatasetRequest& request) {
  const CatalogEntry& entry = find_in_catalog(request.name);
  if (entry.open == nullptr) return entry.synthesize(synthetic_request(entry, request));
  std::vector<std::string> looked_in;
  for (const std::string& directory : request.directories) {
    if (directory.empty()) continue;
    if (auto source = entry.open(entry, directory)) {
      source->adapt(request.height, request.width, request.cache_directory);
      return source;
    }
    const std::string nearby = find_nearby(entry, directory);
    if (!nearby.empty()) throw ConfigError(nearby);
    looked_in.push_back(fmt::format("{}/{}", directory, entry.name));
  }
  if (request.synthesize_when_missing && entry.synthesize) {
    return entry.synthesize(synthetic_request(entry, request));
  }
  throw ConfigError(
      fmt::format("data set {} was not found: looked in {}{}. {}; "
                  "--data-dir or DDPBENCH_DATA_DIR name another directory that holds {}/",
                  entry.name, looked_in.empty() ? "no directory" : "", fmt::join(looked_in, ", "),
                  how_to_get(entry), entry.name) +
      (request.synthesize_when_missing ? ". It has no synthetic stand-in" : ""));
}

}  // namespace ddpbench::data
