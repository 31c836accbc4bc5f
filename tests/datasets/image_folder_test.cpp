// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Folders of images: what is found in them, and the file that they are decoded into.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "datasets/catalog.h"
#include "tests/datasets/test_files.h"
#include "tests/datasets/test_images.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::uint8_t> filled(int height, int width, int value, int channels = 3) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * channels),
                                   static_cast<std::uint8_t>(value));
}

std::string photograph(int height, int width, int grey) {
  return jpeg_file(height, width, filled(height, width, grey), 3);
}

std::string map_of(int height, int width, int label) {
  return png_file(height, width, filled(height, width, label, 1), PngKind::palette);
}

class ImageFolders : public testing::Test {
 protected:
  fs::path data(const std::string& name) const { return directory_.path() / "data" / name; }
  fs::path cache() const { return directory_.path() / "cache"; }

  void put(const std::string& name, const std::string& contents) const {
    fs::create_directories(data(name).parent_path());
    write_file(data(name), contents);
  }

  void put_classes() const {
    put("train/dog/b.jpg", photograph(20, 30, 200));
    put("train/dog/a.JPEG", photograph(30, 20, 190));
    put("train/cat/more/x.png", png_file(9, 9, filled(9, 9, 100), PngKind::rgb));
    put("train/cat/notes.txt", "no image");
    put("val/dog/c.jpg", photograph(40, 50, 180));
  }

  void put_voc() const {
    put("VOC2012/ImageSets/Segmentation/train.txt", "one\ntwo\n");
    put("VOC2012/ImageSets/Segmentation/val.txt", "three\r\n");
    for (const auto& [name, label] : {std::pair("one", 1), {"two", 255}, {"three", 20}}) {
      put(fmt::format("VOC2012/JPEGImages/{}.jpg", name), photograph(20, 30, 10 * label % 256));
      put(fmt::format("VOC2012/SegmentationClass/{}.png", name), map_of(20, 30, label));
    }
  }

  std::unique_ptr<DatasetSource> open(const std::string& name, std::int64_t side = 14) const {
    return open_dataset({.name = name,
                         .directories = {data("").string()},
                         .cache_directory = cache().string(),
                         .channels = 3,
                         .height = side,
                         .width = side});
  }

  // Decodes, and counts in `decoded_` the images that had to be.
  std::vector<std::byte> decode(DatasetSource& source) {
    const FileDescriptor file = source.open_decoded(
        [&](std::int64_t, std::int64_t of, const std::string&) { decoded_ += of; });
    return contents(file, source.info().decoded_bytes());
  }
  static std::vector<std::byte> contents(const FileDescriptor& file, std::size_t size) {
    std::vector<std::byte> bytes(size);
    EXPECT_EQ(::pread(file.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    return bytes;
  }

  std::string refusal(const std::string& name) {
    try {
      decode(*open(name));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    if (!fs::exists(cache())) return files;
    for (const auto& entry : fs::recursive_directory_iterator(cache())) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }

  TemporaryDirectory directory_;
  std::int64_t decoded_ = 0;
};

TEST_F(ImageFolders, AreClassesInTheOrderOfTheirNames) {
  put_classes();
  const auto source = open("image-folder");
  EXPECT_EQ(source->info().classes, 2);
  EXPECT_EQ(source->info().train_samples, 3);
  EXPECT_EQ(source->info().height, 14);
  const std::vector<std::byte> bytes = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), bytes);
  EXPECT_THAT(dataset.train.labels, ElementsAre(0, 1, 1));  // cat/more/x, dog/a, dog/b
  EXPECT_THAT(dataset.test.labels, ElementsAre(1));
  EXPECT_EQ(dataset.train.images[dataset.train.stored[0].offset], 100);
  EXPECT_NEAR(dataset.train.images[dataset.train.stored[1].offset], 190, 1);
  EXPECT_NO_THROW(dataset.check_labels());
}

// The shorter side becomes 16 (of 14 for 224 : 256), unless it is shorter.
TEST_F(ImageFolders, KeepPhotographsNoLargerThanNeeded) {
  put_classes();
  const auto source = open("image-folder");
  const std::vector<std::byte> bytes = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), bytes);
  const auto size = [](const StoredImage& image) { return std::pair(image.height, image.width); };
  EXPECT_EQ(size(dataset.train.stored[0]), std::pair(9u, 9u));
  EXPECT_EQ(size(dataset.train.stored[1]), std::pair(24u, 16u));
  EXPECT_EQ(size(dataset.test.stored[0]), std::pair(16u, 20u));
}

TEST_F(ImageFolders, AreDecodedOnceUntilTheyChange) {
  put_classes();
  const std::vector<std::byte> first = decode(*open("image-folder"));
  EXPECT_EQ(decoded_, 4);
  EXPECT_EQ(decode(*open("image-folder")), first);
  EXPECT_EQ(decoded_, 4);
  decode(*open("image-folder", 28));  // larger images are kept
  EXPECT_EQ(decoded_, 8);
  put("train/dog/b.jpg", photograph(20, 31, 200));
  EXPECT_NE(decode(*open("image-folder")), first);
  EXPECT_EQ(decoded_, 12);
  EXPECT_THAT(cached(), SizeIs(2));  // one a size
}

TEST_F(ImageFolders, StayThoseOfTheFileThatWasOpened) {
  put_classes();
  const std::vector<std::byte> first = decode(*open("image-folder"));
  const FileDescriptor file = open("image-folder")->open_decoded([](auto&&...) {});
  put("train/dog/b.jpg", photograph(60, 70, 100));
  EXPECT_NE(decode(*open("image-folder")), first);
  EXPECT_EQ(contents(file, first.size()), first);
}

TEST_F(ImageFolders, AreWaitedForWhileAnotherProcessDecodesThem) {
  put_classes();
  decode(*open("image-folder"));
  const std::string path = cached().at(0).string();
  put("train/dog/b.jpg", photograph(60, 70, 100));
  auto other = std::make_unique<NewFile>(path, WriteOptions{.force = true});
  int waits = 0;
  const auto progress = [&](std::int64_t, std::int64_t of, const std::string& into) {
    EXPECT_EQ(into, path);
    if (of > 0) return;
    if (++waits == 1) throw InternalError("interrupted");
    if (waits == 3) other.reset();
  };
  EXPECT_THROW(open("image-folder")->open_decoded(progress), InternalError);
  EXPECT_TRUE(open("image-folder")->open_decoded(progress));
  EXPECT_EQ(waits, 3);
}

TEST_F(ImageFolders, LeaveTheOlderFileWhenOneIsDamaged) {
  put_classes();
  decode(*open("image-folder"));
  const std::string before = read_file(cached().at(0));
  put("train/dog/b.jpg", photograph(20, 30, 200).substr(0, 300));
  EXPECT_THAT(refusal("image-folder"),
              AllOf(HasSubstr("train/dog/b.jpg: not a whole JPEG file"), HasSubstr("")));
  ASSERT_THAT(cached(), SizeIs(1));
  EXPECT_EQ(read_file(cached()[0]), before);
}

TEST_F(ImageFolders, AreDecodedAgainWhereTheFileIsCutShort) {
  put_classes();
  const std::vector<std::byte> first = decode(*open("image-folder"));
  fs::resize_file(cached().at(0), fs::file_size(cached()[0]) / 2);
  EXPECT_EQ(decode(*open("image-folder")), first);
}

TEST_F(ImageFolders, LeaveNothingWhereTheFirstIsDamaged) {
  put_classes();
  put("train/cat/more/x.png", "");
  EXPECT_THAT(refusal("image-folder"), HasSubstr("more/x.png: it is empty"));
  EXPECT_THAT(cached(), IsEmpty());
}

TEST_F(ImageFolders, RefuseClassesThatDoNotFit) {
  put_classes();
  put("val/bird/a.jpg", photograph(9, 9, 1));
  EXPECT_THAT(refusal("image-folder"), HasSubstr("val/bird: the training images have no such"));
  fs::remove_all(data("val"));
  put("train/ant/readme", "");
  EXPECT_THAT(refusal("image-folder"), HasSubstr("train/ant: a class without images"));
  fs::remove_all(data("train"));
  fs::create_directories(data("train"));
  EXPECT_THAT(refusal("image-folder"), HasSubstr("train: 0 classes"));
  fs::remove_all(data("train"));
  EXPECT_THAT(refusal("image-folder"), HasSubstr("a folder with train/CLASS/*.jpg"));
}

TEST_F(ImageFolders, OfVocHaveMaps) {
  put_voc();
  const auto source = open("voc2012");
  const std::vector<std::byte> bytes = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), bytes);
  EXPECT_EQ(dataset.train.count, 2);
  EXPECT_EQ(dataset.test.count, 1);
  EXPECT_EQ(dataset.info.labels_per_sample(), 14 * 14);
  EXPECT_EQ(dataset.train.stored[1].width, 30u);
  EXPECT_EQ(dataset.train.map_of(0)[20 * 30 - 1], 1);
  EXPECT_EQ(dataset.train.map_of(1)[0], kVoidLabel);
  EXPECT_EQ(dataset.test.map_of(0)[0], 20);
  EXPECT_NO_THROW(dataset.check_labels(kVoidLabel));
}

TEST_F(ImageFolders, OfVocRefuseMapsThatDoNotFit) {
  put_voc();
  const std::string map = "VOC2012/SegmentationClass/two.png";
  put(map, map_of(20, 30, 21));
  EXPECT_THAT(refusal("voc2012"), AllOf(HasSubstr("two.png: the label 21 in row 0, column 0"),
                                        HasSubstr("0 to 20, and 255")));
  put(map, map_of(30, 20, 1));
  EXPECT_THAT(refusal("voc2012"), HasSubstr("two.png: a map of 30 x 20 labels; its image has 20"));
  put(map, png_file(20, 30, filled(20, 30, 1), PngKind::rgb));
  EXPECT_THAT(refusal("voc2012"), HasSubstr("two.png: colours"));
  fs::remove(data(map));
  EXPECT_THAT(refusal("voc2012"), HasSubstr("SegmentationClass/two.png: No such file"));
  put("VOC2012/ImageSets/Segmentation/val.txt", "\n");
  EXPECT_THAT(refusal("voc2012"), HasSubstr("val.txt: it names no images"));
  EXPECT_THAT(cached(), IsEmpty());
}

TEST_F(ImageFolders, OfVocThatAreMissingAreDrawn) {
  const auto source = open_dataset({.name = "voc2012",
                                    .directories = {data("").string()},
                                    .synthesize_when_missing = true,
                                    .channels = 3,
                                    .height = 16,
                                    .width = 16,
                                    .label_height = 16,
                                    .label_width = 16,
                                    .ignored_label = kVoidLabel});
  EXPECT_EQ(source->info().source, "synthetic");
  EXPECT_EQ(source->info().classes, 21);
  EXPECT_EQ(source->info().labels_per_sample(), 256);
}

TEST_F(ImageFolders, ReadTheRealSample) {
  const auto real = real_data_directory("voc2012-sample");
  if (!real) GTEST_SKIP() << "the sample of VOC 2012 is not here";
  const auto source = open_dataset({.name = "voc2012",
                                    .directories = {*real + "/voc2012-sample"},
                                    .cache_directory = cache().string(),
                                    .channels = 3,
                                    .height = 65,
                                    .width = 65});
  const std::vector<std::byte> bytes = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), bytes);
  EXPECT_EQ(dataset.train.count, 3);
  EXPECT_EQ(dataset.test.count, 2);
  // 2007_000129 shows bicycles (2) and persons (15), with void outlines.
  std::set<int> labels;
  for (const Split* split : {&dataset.train, &dataset.test}) {
    for (std::int64_t i = 0; i < split->count; ++i) {
      const StoredImage& image = split->stored[static_cast<std::size_t>(i)];
      const std::uint8_t* const map = split->map_of(i);
      labels.insert(map, map + std::size_t{image.height} * image.width);
    }
  }
  EXPECT_THAT(labels, testing::IsSupersetOf({0, 2, 15, 255}));
}

}  // namespace
}  // namespace ddpbench::data
