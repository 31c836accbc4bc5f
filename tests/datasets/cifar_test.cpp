// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CIFAR-10's binary files: where they are looked for, what is read from them, and every kind of
// damage with its message.
#include "datasets/readers.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "datasets/catalog.h"
#include "datasets/fetch.h"
#include "tests/datasets/http_server.h"
#include "tests/datasets/test_files.h"

namespace ddpbench::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

constexpr std::size_t kImage = 3 * 32 * 32, kRecord = 1 + kImage;

// Record i of file f has the label (f + i) mod 10 and an image that depends on both.
std::string cifar_record(std::size_t file, std::size_t i) {
  std::string record(1, static_cast<char>((file + i) % 10));
  for (std::size_t p = 0; p < kImage; ++p) {
    record += static_cast<char>((31 * file + 7 * i + p) % 251);
  }
  return record;
}

std::string cifar_records(std::size_t file, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += cifar_record(file, i);
  return bytes;
}

std::string file_name(std::size_t file) {
  return file == 5 ? "test_batch.bin" : "data_batch_" + std::to_string(file + 1) + ".bin";
}

std::vector<std::byte> decode(DatasetSource& source) {
  std::vector<std::byte> decoded(source.info().decoded_bytes());
  source.decode(decoded);
  return decoded;
}

// The message of the ConfigError of opening and decoding; empty when there is none.
std::string cifar_error(const CatalogEntry& entry, const fs::path& directory) {
  try {
    const auto source = open_cifar_dataset(entry, directory.string());
    if (source) decode(*source);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_records(const Split& split, std::size_t first, std::size_t file, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string record = cifar_record(file, i);
    EXPECT_EQ(split.labels[first + i], static_cast<std::uint16_t>(record[0]));
    const auto image = split.images.subspan((first + i) * kImage, kImage);
    EXPECT_EQ(std::string(image.begin(), image.end()), record.substr(1)) << file << " " << i;
  }
}

class CifarFiles : public testing::Test {
 protected:
  void write(const std::string& folder, std::size_t file, const std::string& bytes) {
    write_file(directory_.path() / folder / file_name(file), bytes);
  }
  // All files, whole.
  void write_all(const std::string& folder) {
    for (std::size_t file = 0; file < 6; ++file) {
      write(folder, file, cifar_records(file, file == 5 ? 2 : 3));
    }
  }
  std::unique_ptr<DatasetSource> open() {
    return open_cifar_dataset(entry_, directory_.path().string());
  }
  std::string error() { return cifar_error(entry_, directory_.path()); }

  const CatalogEntry entry_ = find_in_catalog("cifar10");
  TemporaryDirectory directory_;
};

TEST_F(CifarFiles, AreReadInOrderFromEachPlace) {
  for (const std::string folder :
       {"cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "cifar10"}) {
    write_all(folder);  // the last one is preferred
    const auto source = open();
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(source->info().directory, (directory_.path() / folder).string());
    EXPECT_EQ(source->info().source, "files");
    EXPECT_EQ(source->info().train_samples, 15);
    EXPECT_EQ(source->info().test_samples, 2);
    const std::vector<std::byte> decoded = decode(*source);
    const Dataset dataset = Dataset::view(source->info(), decoded);
    for (std::size_t file = 0; file < 5; ++file) expect_records(dataset.train, 3 * file, file, 3);
    expect_records(dataset.test, 0, 5, 2);
    EXPECT_EQ(dataset.train.channels, 3);
    EXPECT_EQ(dataset.train.width, 32);
  }
}

TEST_F(CifarFiles, AreNotThere) {
  EXPECT_EQ(open(), nullptr);
  fs::create_directories(directory_.path() / "cifar10");
  EXPECT_EQ(open(), nullptr);
}

TEST_F(CifarFiles, MayHoldFewerRecordsThanWerePublished) {
  write("cifar10", 0, cifar_records(0, 2));
  write("cifar10", 3, cifar_records(3, 1));
  write("cifar10", 5, cifar_records(5, 1));
  const auto source = open();
  EXPECT_EQ(source->info().train_samples, 3);
  EXPECT_EQ(source->info().test_samples, 1);
  const std::vector<std::byte> decoded = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), decoded);
  expect_records(dataset.train, 0, 0, 2);
  expect_records(dataset.train, 2, 3, 1);
}

TEST_F(CifarFiles, NameTheMissingFile) {
  write("cifar10", 0, cifar_records(0, 3));
  EXPECT_THAT(error(),
              AllOf(HasSubstr("incomplete"), HasSubstr("cifar10/test_batch.bin is missing"),
                    HasSubstr("ddpbench data fetch cifar10")));
  fs::remove(directory_.path() / "cifar10/data_batch_1.bin");
  write("cifar10", 5, cifar_records(5, 2));
  EXPECT_THAT(error(), HasSubstr("cifar10/data_batch_1.bin is missing"));
}

TEST_F(CifarFiles, CutShortNameFileRecordAndByte) {
  write_all("cifar10");
  write("cifar10", 1, cifar_records(1, 3).substr(0, 2 * kRecord + 100));
  EXPECT_THAT(error(), AllOf(HasSubstr("cifar10/data_batch_2.bin: record 2, offset 6246"),
                             HasSubstr("a record of 3073 bytes"), HasSubstr("after 100 of them")));
  write("cifar10", 1, "");
  EXPECT_THAT(error(), HasSubstr("data_batch_2.bin: record 0, offset 0"));
}

TEST_F(CifarFiles, CutShortAfterTheyWereOpened) {
  write_all("cifar10");
  const auto source = open();
  write("cifar10", 4, cifar_records(4, 3).substr(0, kRecord + 7));
  EXPECT_THAT([&] { decode(*source); },
              testing::ThrowsMessage<ConfigError>(AllOf(
                  HasSubstr("data_batch_5.bin: record 1, offset 3080"), HasSubstr("cut short"))));
}

TEST_F(CifarFiles, WithLabelsOutOfRangeNameTheRecord) {
  write_all("cifar10");
  std::string bytes = cifar_records(5, 2);
  bytes[kRecord] = 10;
  write("cifar10", 5, bytes);
  const auto source = open();
  const std::vector<std::byte> decoded = decode(*source);
  EXPECT_THAT([&] { Dataset::view(source->info(), decoded).check_labels(); },
              testing::ThrowsMessage<ConfigError>(
                  HasSubstr("record 1 of the test set has the label 10; labels are 0 to 9")));
}

TEST_F(CifarFiles, ThatArePackedAreRefused) {
  write_all("cifar10");
  write("cifar10", 0, gzip(cifar_records(0, 3)));
  EXPECT_THAT(error(), AllOf(HasSubstr("data_batch_1.bin"), HasSubstr("found a gzip file")));
}

// As published: the files are in no order, beside others.
std::string cifar_tar() {
  const std::string folder = "cifar-10-batches-bin/";
  std::string tar = tar_member(folder, "", '5');
  for (const std::size_t file : {0U, 2U, 5U, 4U, 1U, 3U}) {
    tar += tar_member(folder + file_name(file), cifar_records(file, file == 5 ? 2 : 3));
    if (file == 2) tar += tar_member(folder + "batches.meta.txt", "airplane\n");
  }
  return tar + std::string(1024, '\0');
}

TEST_F(CifarFiles, AreFetchedAndUnpacked) {
  const std::string bytes = gzip(cifar_tar()), sum = sha256_of(bytes);
  CatalogEntry entry = entry_;
  entry.files = {{"cifar-10-binary.tar.gz", {bytes.size(), sum}}};
  setenv("no_proxy", "127.0.0.1", 1);  // libcurl reads it by itself
  HttpServer server;
  server.serve("/cifar-10-binary.tar.gz", http_answer("200 OK", bytes));
  fetch_files(entry,
              {.directory = directory_.path().string(), .base_url = server.url(), .progress = {}});
  EXPECT_THAT(inspect_files(entry, directory_.path().string()),
              ElementsAre(testing::Field(&FileState::correct, true)));
  const auto source = open();
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->info().train_samples, 15);
  const std::vector<std::byte> decoded = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), decoded);
  for (std::size_t file = 0; file < 5; ++file) expect_records(dataset.train, 3 * file, file, 3);
  expect_records(dataset.test, 0, 5, 2);
}

TEST(Cifar10, HasASyntheticStandInOfItsShapeAndCounts) {
  const auto source = open_dataset({.name = "cifar10", .synthesize_when_missing = true});
  EXPECT_EQ(source->info().source, "synthetic");
  EXPECT_EQ(source->info().train_samples, 50000);
  EXPECT_EQ(source->info().test_samples, 10000);
  EXPECT_EQ(source->info().sample_bytes(), kImage);
}

// The files of this folder have other names, since they are no whole batches.
TEST(Cifar10, DecodesRealRecords) {
  const auto real = real_data_directory("cifar-10-subset");
  if (!real) GTEST_SKIP() << "no CIFAR-10 in " << DDPBENCH_TEST_DATA_DIRECTORY;
  const fs::path subset = fs::path(*real) / "cifar-10-subset";
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "cifar10");
  fs::create_symlink(subset / "data_batch_1_first4000.bin",
                     directory.path() / "cifar10/data_batch_1.bin");
  fs::create_symlink(subset / "test_batch_first1000.bin",
                     directory.path() / "cifar10/test_batch.bin");
  const auto source = open_dataset({.name = "cifar10", .directories = {directory.path().string()}});
  EXPECT_EQ(source->info().train_samples, 4000);
  EXPECT_EQ(source->info().test_samples, 1000);
  const std::vector<std::byte> decoded = decode(*source);
  const Dataset dataset = Dataset::view(source->info(), decoded);
  // The first labels, as everybody who has opened the file knows them: frog, truck, truck, deer.
  EXPECT_THAT(dataset.train.labels.first(5), ElementsAre(6, 9, 9, 4, 1));
  EXPECT_THAT(dataset.test.labels.first(5), ElementsAre(3, 8, 8, 0, 6));
  // Means and deviations of the channels are near those of all 50000 images.
  const CatalogEntry& entry = find_in_catalog("cifar10");
  for (std::size_t channel = 0; channel < 3; ++channel) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < 4000; ++i) {
      for (const std::uint8_t byte :
           dataset.train.images.subspan(i * kImage + channel * 1024, 1024)) {
        sum += byte / 255.0;
        squares += byte / 255.0 * (byte / 255.0);
      }
    }
    const double count = 4000.0 * 1024, mean = sum / count;
    EXPECT_NEAR(mean, entry.mean[channel], 0.005) << channel;
    EXPECT_NEAR(std::sqrt(squares / count - mean * mean), entry.deviation[channel], 0.005);
  }
}

}  // namespace
}  // namespace ddpbench::data
