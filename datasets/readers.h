// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Data sets that consist of files: the formats of MNIST and of CIFAR-10, folders of images, and the
// bytes beneath.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

struct gzFile_s;  // zlib's

namespace ddpbench::data {

// CatalogEntry::open for the IDX format of MNIST (http://yann.lecun.com/exdb/mnist). The entry's
// files are train images, train labels, test images and test labels, in this order, of 28 x 28 grey
// pixels. Labels may also be QMNIST's: 8 integers a label, of which the first counts. Fewer samples
// than were published are fine (a subset); another image size is not.
std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory);

// CatalogEntry::open for CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html, "binary version").
// Looks for data_batch_1.bin to data_batch_5.bin and test_batch.bin. Other numbers of training
// files and of records than were published are fine (a subset).
std::unique_ptr<DatasetSource> open_cifar_dataset(const CatalogEntry& entry,
                                                  const std::string& directory);

// CatalogEntry::open for a folder with train/CLASS/*.jpg (or .jpeg, .png, in folders below), and
// val/CLASS or test/CLASS where there are test images. Classes are numbered in the order of their
// names, as torchvision's ImageFolder does.
std::unique_ptr<DatasetSource> open_image_folder(const CatalogEntry& entry,
                                                 const std::string& directory);

// CatalogEntry::open for PASCAL VOC's segmentation task
// (http://host.robots.ox.ac.uk/pascal/VOC/voc2012): ImageSets/Segmentation/{train,val}.txt name the
// photographs in JPEGImages and their maps in SegmentationClass.
std::unique_ptr<DatasetSource> open_voc(const CatalogEntry& entry, const std::string& directory);

// Where a data set is looked for, the preferred folder first. `directory` may also lie in one of
// these: data/, data/MNIST/ and data/MNIST/raw/ lead to the same files.
std::vector<std::filesystem::path> places_of(const CatalogEntry& entry,
                                             const std::filesystem::path& directory);

// The names under which the file "a-idx3-ubyte.gz" is distributed: also dotted, each plain or as
// gzip.
std::vector<std::string> forms_of(std::string_view packed);

// foreign_format() of the contents.
std::string foreign_words(const std::string& path);

// What a source says of its files before it has counted their samples.
DatasetInfo info_of_files(const CatalogEntry& entry, const std::string& directory);

// Throws ConfigError that names the place in the file: "PATH: record 2, offset 6246: expected ...".
[[noreturn]] void disagree(const std::string& path, std::uint64_t offset,
                           const std::string& expected, const std::string& found,
                           std::optional<std::int64_t> record = std::nullopt);

// True for any directory entry of that name, also a broken link: opening it then says what is
// wrong. Throws ConfigError when it cannot look.
bool is_there(const std::string& path);

// The contents of a file, unpacked when it is gzip, which its first bytes tell and not its name.
// What follows a gzip stream is not read. Not thread-safe.
class FileBytes {
 public:
  // Throws ConfigError when it is no regular file or cannot be opened.
  explicit FileBytes(const std::string& path);

  bool is_gzip() const { return gzip_; }
  std::uint64_t size_on_disk() const { return size_on_disk_; }

  // Fills `out` with the next bytes and returns their number, which is less than out.size() only at
  // the end of the contents. Throws ConfigError for a damaged or shortened gzip stream.
  std::size_t read(std::span<std::uint8_t> out);

 private:
  struct Close {
    void operator()(gzFile_s* file) const noexcept;
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::uint64_t size_on_disk_ = 0;
  bool gzip_ = false;
};

// [height, width, channels] bytes: red, green and blue of a photograph, or one label.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// Larger images are refused before they get memory, as Pillow does (MAX_IMAGE_PIXELS, twice).
inline constexpr std::int64_t kMostPixels = 178'956'970;

// The photograph in a file with these contents, JPEG or PNG as its first bytes say and not its
// name, in the colours that torchvision's loader gives: grey becomes three equal channels, CMYK is
// converted as Pillow does, transparency is dropped, and a rotation that EXIF asks for is not done.
// Throws ConfigError that names `path` for 16 bits a channel, damage and other formats.
Image decode_photograph(std::string_view contents, const std::string& path);

// The labels in a PNG file: the numbers of a palette's colours, or grey values. Throws ConfigError
// that names `path` where the file has colours in place of labels, for damage and other formats.
Image decode_label_map(std::string_view contents, const std::string& path);

// The whole file, for the two functions above. Throws ConfigError when it cannot be read.
std::string read_image_file(const std::string& path);

}  // namespace ddpbench::data
