// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Folders of images: one a class, and PASCAL VOC's segmentation task. They are decoded once a host
// into a file of its cache that all ranks map. There is one for a folder and a size that images are
// kept in, of 3 bytes a pixel and 1 a label; a new one replaces it where images have changed.
//
// The file: each image's pixels and behind them its map, 64-byte aligned; then the table of images,
// the labels of those without maps, and StoreEnd. Equal data sets have equal bytes: images are
// decoded by several threads, and written in order.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"
#include "base/random.h"
#include "datasets/image_view.h"
#include "datasets/readers.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImageAlignment = 64;
constexpr std::size_t kAtOnce = 32;  // images that are decoded before they are written

struct ImageItem {
  std::string image;  // path of a photograph
  std::string map;    // path of its map of labels; empty: `label` is the image's
  std::uint16_t label = 0;
};

std::span<const std::byte> bytes_of(const auto& items) { return std::as_bytes(std::span(items)); }

// Photographs whose shorter side is longer than `side` are resized to it; 0: none is.
Image decode_image(const std::string& path, std::int64_t side) {
  Image image = decode_photograph(read_image_file(path), path);
  const std::int64_t shorter = std::min(image.height, image.width);
  if (side == 0 || shorter <= side) return image;
  const auto length = [&](std::int64_t from) {
    return std::llround(static_cast<double>(from) * static_cast<double>(side) /
                        static_cast<double>(shorter));
  };
  Image small{length(image.height), length(image.width), {}};
  small.pixels.reserve(static_cast<std::size_t>(3 * small.height * small.width));
  resample(image.pixels.data(), image.width,
           resized_view(image.height, image.width, small.height, small.width),
           [&](std::int64_t, std::span<const float> row) {
             for (const float value : row) {
               small.pixels.push_back(static_cast<std::uint8_t>(value + 0.5F));
             }
           });
  return small;
}

// Appends the map of the image's labels to its pixels.
void append_map(Image& image, const std::string& path, int classes) {
  const Image map = decode_label_map(read_image_file(path), path);
  if (map.height != image.height || map.width != image.width) {
    throw ConfigError(fmt::format("{}: a map of {} x {} labels; its image has {} x {} pixels", path,
                                  map.height, map.width, image.height, image.width));
  }
  const auto bad = std::ranges::find_if(
      map.pixels, [&](std::uint8_t label) { return label >= classes && label != kVoidLabel; });
  if (bad != map.pixels.end()) {
    throw ConfigError(
        fmt::format("{}: the label {} in row {}, column {}; labels are 0 to {}, and "
                    "{} for none",
                    path, *bad, (bad - map.pixels.begin()) / map.width,
                    (bad - map.pixels.begin()) % map.width, classes - 1, kVoidLabel));
  }
  image.pixels.insert(image.pixels.end(), map.pixels.begin(), map.pixels.end());
}

// open_decoded() throws ConfigError that names the file for one that cannot be read, for a map of
// another size than its image, and for labels in a map that are neither classes nor kVoidLabel.
class ImageSource final : public DatasetSource {
 public:
  // Images with maps are kept at their own size. `info` has no counts.
  ImageSource(DatasetInfo info, bool has_maps, std::vector<ImageItem> train,
              const std::vector<ImageItem>& test)
      : info_(std::move(info)), has_maps_(has_maps), items_(std::move(train)) {
    info_.own_sizes = true;
    info_.train_samples = std::ssize(items_);
    info_.test_samples = std::ssize(test);
    items_.insert(items_.end(), test.begin(), test.end());
  }

  const DatasetInfo& info() const override { return info_; }

  void adapt(std::int64_t height, std::int64_t width, const std::string& cache) override {
    info_.height = height;
    info_.width = width;
    if (has_maps_) info_.label_height = height;
    if (has_maps_) info_.label_width = width;
    cache_ = cache;
  }

  FileDescriptor open_decoded(const DecodeProgress& progress) override {
    const fs::path path = path_of_store();
    const std::uint64_t key = key_of_images();
    if (FileDescriptor whole = open_if_whole(path, key)) return whole;
    std::error_code ignored;  // writing tells
    fs::create_directories(path.parent_path(), ignored);
    const auto wait = [&] { progress(0, 0, path.string()); };
    NewFile file(path.string(), {.force = true, .while_waiting = wait});
    FileDescriptor whole = open_if_whole(path, key);  // which another process has made meanwhile
    return whole ? std::move(whole) : write_store(file, path, key, progress);
  }

 private:
  std::int64_t side() const { return has_maps_ ? 0 : short_side_for(info_.height, info_.width); }

  fs::path path_of_store() const {
    if (cache_.empty()) {
      throw ConfigError(
          fmt::format("{}: there is no place for decoded images; XDG_CACHE_HOME or "
                      "HOME name one",
                      info_.name));
    }
    const std::string folder = fs::absolute(info_.directory).string();
    return fs::path(cache_) / fmt::format("decoded/{}-{:016x}-{}.images", info_.name,
                                          hash_bytes(folder.data(), folder.size()), side());
  }

  // Depends on all that the file's contents are made of: names, sizes and times of images.
  std::uint64_t key_of_images() const {
    constexpr std::uint64_t kVersion = 1;
    std::uint64_t key = combine_hash(kVersion, static_cast<std::uint64_t>(side()));
    const auto add = [&](const std::string& path) {
      std::error_code error;
      key = hash_bytes(path.data(), path.size(), key);
      key = combine_hash(key, fs::file_size(path, error));
      const auto time = fs::last_write_time(path, error).time_since_epoch().count();
      key = combine_hash(key, static_cast<std::uint64_t>(time));
      if (error) throw ConfigError(fmt::format("{}: {}", path, error.message()));
    };
    for (const ImageItem& item : items_) {
      add(item.image);
      if (has_maps_) add(item.map);
      key = combine_hash(key, item.label);
    }
    return combine_hash(key, static_cast<std::uint64_t>(info_.train_samples));
  }

  // The file if it has these images decoded, else none; sets the size that it has.
  FileDescriptor open_if_whole(const fs::path& path, std::uint64_t key) {
    StoreEnd end;
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const off_t bytes = file ? ::lseek(file.get(), 0, SEEK_END) : 0;
    const off_t at = bytes - static_cast<off_t>(sizeof(end));
    if (at < 0 || ::pread(file.get(), &end, sizeof(end), at) != sizeof(end) || end.key != key) {
      return {};
    }
    info_.stored_bytes = static_cast<std::uint64_t>(bytes);
    return file;
  }

  // Returns the file, opened to be read.
  FileDescriptor write_store(NewFile& file, const fs::path& path, std::uint64_t key,
                             const DecodeProgress& progress) {
    std::vector<StoredImage> table;
    std::uint64_t offset = 0;
    const auto write = [&](std::span<const std::byte> bytes) {
      static constexpr std::array<std::byte, kImageAlignment> kZeros{};
      file.write(bytes);
      file.write(std::span(kZeros).first(round_up(bytes.size(), kImageAlignment) - bytes.size()));
      return std::exchange(offset, offset + round_up(bytes.size(), kImageAlignment));
    };
    std::vector<Image> images(kAtOnce);
    for (std::size_t first = 0; first < items_.size(); first += kAtOnce) {
      progress(static_cast<std::int64_t>(first), std::ssize(items_), path.string());
      const std::size_t count = std::min(kAtOnce, items_.size() - first);
      in_threads(count, 1, [&](std::size_t i) {
        const ImageItem& item = items_[first + i];
        images[i] = decode_image(item.image, side());
        if (has_maps_) append_map(images[i], item.map, info_.classes);
      });
      for (std::size_t i = 0; i < count; ++i) {
        table.push_back({write(bytes_of(images[i].pixels)),
                         static_cast<std::uint32_t>(images[i].height),
                         static_cast<std::uint32_t>(images[i].width)});
      }
    }
    std::vector<std::uint16_t> labels;
    for (const ImageItem& item : items_) labels.push_back(item.label);
    StoreEnd end{.key = key, .table = write(bytes_of(table)), .labels = write(bytes_of(labels))};
    end.train = static_cast<std::uint64_t>(info_.train_samples);
    end.test = static_cast<std::uint64_t>(info_.test_samples);
    end.has_maps = has_maps_ ? 1 : 0;
    file.write(std::as_bytes(std::span(&end, 1)));
    FileDescriptor written(::open(file.part().c_str(), O_RDONLY | O_CLOEXEC));
    file.commit();
    info_.stored_bytes = offset + sizeof(end);
    return written;
  }

  DatasetInfo info_;
  bool has_maps_;
  std::vector<ImageItem> items_;  // to train, then to test
  std::string cache_;
};

// The entries of a folder, or of all below it, that `wanted` takes, sorted by name.
template <typename Iterator>
std::vector<fs::path> entries_of(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> found;
  try {
    constexpr auto kOptions = fs::directory_options::follow_directory_symlink;
    for (const fs::directory_entry& entry : Iterator(folder, kOptions)) {
      if (wanted(entry.path())) found.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(fmt::format("cannot list {}: {}", folder.string(), error.code().message()));
  }
  std::ranges::sort(found);
  return found;
}

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return (extension == ".jpg" || extension == ".jpeg" || extension == ".png") && !is_folder(path);
}

// The images of a split; `classes` has the label of each class.
std::vector<ImageItem> list_classes(const fs::path& split,
                                    const std::map<std::string, std::uint16_t>& classes) {
  std::vector<ImageItem> items;
  for (const fs::path& folder : entries_of<fs::directory_iterator>(split, &is_folder)) {
    const auto label = classes.find(folder.filename().string());
    if (label == classes.end()) {
      throw ConfigError(fmt::format("{}: the training images have no such class", folder.string()));
    }
    const auto files = entries_of<fs::recursive_directory_iterator>(folder, &is_image);
    if (files.empty()) {
      throw ConfigError(
          fmt::format("{}: a class without images (.jpg, .jpeg, .png)", folder.string()));
    }
    for (const fs::path& file : files) items.push_back({file.string(), "", label->second});
  }
  return items;
}

// The images that a file of VOC's ImageSets/Segmentation names, one a line.
std::vector<ImageItem> list_names(const fs::path& folder, const char* set) {
  const fs::path path = folder / "ImageSets/Segmentation" / set;
  std::istringstream names(ddpbench::read_file(
      path.string(), {.what = "list of images ", .most_bytes = std::size_t{1} << 30}));
  std::vector<ImageItem> items;
  for (std::string name; names >> name;) {
    items.push_back({(folder / "JPEGImages" / (name + ".jpg")).string(),
                     (folder / "SegmentationClass" / (name + ".png")).string()});
  }
  if (items.empty()) throw ConfigError(fmt::format("{}: it names no images", path.string()));
  return items;
}

}  // namespace

std::unique_ptr<DatasetSource> open_image_folder(const CatalogEntry& entry,
                                                 const std::string& directory) {
  for (const fs::path& folder : places_of(entry, directory)) {
    if (!is_folder(folder / "train")) continue;
    std::map<std::string, std::uint16_t> classes;  // as torchvision's ImageFolder numbers them
    for (const fs::path& path : entries_of<fs::directory_iterator>(folder / "train", &is_folder)) {
      classes.emplace(path.filename().string(), static_cast<std::uint16_t>(classes.size()));
    }
    if (classes.empty() || std::ssize(classes) > kMostClasses) {
      throw ConfigError(fmt::format("{}: {} classes; expected 1 to {} folders, one a class",
                                    (folder / "train").string(), classes.size(), kMostClasses));
    }
    DatasetInfo info = info_of_files(entry, folder.string());
    info.classes = static_cast<int>(classes.size());
    const fs::path test = folder / (is_folder(folder / "val") ? "val" : "test");
    return std::make_unique<ImageSource>(
        info, false, list_classes(folder / "train", classes),
        is_folder(test) ? list_classes(test, classes) : std::vector<ImageItem>());
  }
  return nullptr;
}

std::unique_ptr<DatasetSource> open_voc(const CatalogEntry& entry, const std::string& directory) {
  for (const fs::path& folder : places_of(entry, directory)) {
    if (!is_there((folder / "ImageSets/Segmentation/train.txt").string())) continue;
    return std::make_unique<ImageSource>(info_of_files(entry, folder.string()), true,
                                         list_names(folder, "train.txt"),
                                         list_names(folder, "val.txt"));
  }
  return nullptr;
}

}  // namespace ddpbench::data
