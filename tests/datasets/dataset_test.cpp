// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where data sets come from, and their decoded form.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "datasets/catalog.h"
#include "tests/datasets/test_files.h"

namespace ddpbench::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

namespace fs = std::filesystem;

std::unique_ptr<DatasetSource> open(const std::string& name,
                                    const std::vector<std::string>& directories,
                                    bool synthesize = false) {
  return open_dataset(
      {.name = name, .directories = directories, .synthesize_when_missing = synthesize});
}

TEST(OpenDataset, ReadsPlainAndGzipFilesAlike) {
  const SmallMnist mnist;
  const TemporaryDirectory plain, packed;
  mnist.write(plain.path(), false);
  mnist.write(packed.path(), true);

  const auto source = open("mnist", {plain.path().string()});
  EXPECT_EQ(source->info().source, "files");
  EXPECT_EQ(source->info().directory, (plain.path() / "mnist").string());
  EXPECT_EQ(source->info().train_samples, 5);
  EXPECT_EQ(source->info().test_samples, 3);
  EXPECT_EQ(source->info().classes, 10);
  EXPECT_EQ(source->info().sample_bytes(), 784U);

  const std::vector<std::byte> decoded = open_and_decode(plain.path());
  EXPECT_EQ(decoded, open_and_decode(packed.path()));
  const Dataset dataset = Dataset::view(source->info(), decoded);
  const auto expect_part = [&](const auto& part, std::size_t i) {
    const std::size_t header = i % 2 == 0 ? 16 : 8;
    EXPECT_EQ(std::string(part.begin(), part.end()), mnist.contents[i].substr(header)) << i;
    const auto offset = reinterpret_cast<const std::byte*>(part.data()) - decoded.data();
    EXPECT_EQ(offset % 64, 0) << i;
  };
  expect_part(dataset.train.images, 0);
  expect_part(dataset.train.labels, 1);
  expect_part(dataset.test.images, 2);
  expect_part(dataset.test.labels, 3);
}

TEST(OpenDataset, PrefersTheEarlierDirectoryAndPassesOverEmptyOnes) {
  const SmallMnist mnist;
  const TemporaryDirectory nothing, first, second;
  mnist.write(first.path(), true);
  mnist.write(second.path(), true);
  const auto source =
      open("mnist", {"", nothing.path().string(), first.path().string(), second.path().string()});
  EXPECT_EQ(source->info().directory, (first.path() / "mnist").string());
}

TEST(OpenDataset, ReadsOnlyHeadersUntilItDecodes) {
  SmallMnist mnist;
  const TemporaryDirectory directory;
  mnist.contents[1] += "more";
  mnist.write(directory.path(), true);
  const auto source = open("mnist", {directory.path().string()});
  EXPECT_EQ(source->info().train_samples, 5);
  std::vector<std::byte> decoded(source->info().decoded_bytes());
  EXPECT_THROW(source->decode(decoded), ConfigError);
}

TEST(OpenDataset, NamesTheSplitsOfAFamily) {
  EXPECT_THAT([] { open("emnist", {}, true); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("did you mean \"emnist-balanced\" or \"emnist-byclass\" or "),
                        HasSubstr(" or \"emnist-mnist\"?"), Not(HasSubstr("\"mnist\"")))));
}

TEST(OpenDataset, NamesTheNearestKnownNameForAnUnknownOne) {
  EXPECT_THAT([] { open("fashion_mnist", {}, true); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("\"fashion_mnist\""), HasSubstr("did you mean \"fashion-mnist\""),
                        HasSubstr("mnist, fashion-mnist, cifar10, kmnist, qmnist, "),
                        HasSubstr("emnist-mnist, image-folder, voc2012, synthetic"))));
  EXPECT_THAT([] { open("minst", {}, true); },
              ThrowsMessage<ConfigError>(HasSubstr("did you mean \"mnist\"")));
}

TEST(OpenDataset, SaysWhereItLookedAndHowToFetch) {
  EXPECT_THAT(
      [] {
        open("mnist", {"/nowhere/a", "/nowhere/b"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("/nowhere/a/mnist, /nowhere/b/mnist"),
                                       HasSubstr("ddpbench data fetch mnist"),
                                       HasSubstr("DDPBENCH_DATA_DIR"))));
}

TEST(OpenDataset, SynthesizesOnlyWhenAskedAndSaysSo) {
  const auto source = open("mnist", {"/nowhere"}, true);
  EXPECT_EQ(source->info().source, "synthetic");
  EXPECT_EQ(source->info().directory, "");
  EXPECT_THAT([] { open("fashion-mnist", {"/nowhere"}, true); },
              ThrowsMessage<ConfigError>(HasSubstr("no synthetic stand-in")));
}

TEST(OpenDataset, NamesEachMissingFileAndNeverSynthesizesThen) {
  const SmallMnist mnist;
  for (const std::string& name : mnist.names) {
    const TemporaryDirectory directory;
    mnist.write(directory.path(), true);
    fs::remove(directory.path() / "mnist" / (name + ".gz"));
    EXPECT_THAT([&] { open("mnist", {directory.path().string()}, true); },
                ThrowsMessage<ConfigError>(
                    AllOf(HasSubstr("incomplete"), HasSubstr(name + ".gz missing"))));
  }
}

TEST(OpenDataset, RefusesWhatIsNotARegularFile) {
  const SmallMnist mnist;
  const TemporaryDirectory directory;
  mnist.write(directory.path(), false);
  const fs::path labels = directory.path() / "mnist" / mnist.names[1];
  fs::remove(labels);
  fs::create_directory(labels);
  EXPECT_THAT(error_of_decoding(directory.path()),
              AllOf(HasSubstr(labels.string()), HasSubstr("regular file")));
  fs::remove(labels);
  fs::create_symlink("/nowhere/at/all", labels);
  EXPECT_THAT(error_of_decoding(directory.path()),
              AllOf(HasSubstr(labels.string()), HasSubstr("no such file")));
}

TEST(OpenDataset, DoesNotWaitForTheWriterOfAPipe) {
  const SmallMnist mnist;
  const TemporaryDirectory directory;
  mnist.write(directory.path(), false);
  const fs::path labels = directory.path() / "mnist" / mnist.names[1];
  fs::remove(labels);
  ASSERT_EQ(::mkfifo(labels.c_str(), 0600), 0);
  EXPECT_THAT(error_of_decoding(directory.path()),
              AllOf(HasSubstr(labels.string()), HasSubstr("regular file")));
}

TEST(OpenDataset, RefusesAFileThatChangedSinceItWasOpened) {
  SmallMnist mnist;
  const TemporaryDirectory directory;
  mnist.write(directory.path(), false);
  const auto source = open("mnist", {directory.path().string()});
  std::vector<std::byte> decoded(source->info().decoded_bytes());
  write_file(directory.path() / "mnist" / mnist.names[0], mnist.contents[2]);
  EXPECT_THROW(source->decode(decoded), ConfigError);
}

struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments_of(std::span<const std::uint8_t> bytes) {
  double sum = 0, squares = 0;
  for (const std::uint8_t byte : bytes) {
    sum += byte / 255.0;
    squares += byte / 255.0 * (byte / 255.0);
  }
  const double mean = sum / static_cast<double>(bytes.size());
  return {mean, std::sqrt(squares / static_cast<double>(bytes.size()) - mean * mean)};
}

TEST(OpenDataset, DecodesTheRealMnist) {
  const auto directory = real_data_directory("mnist");
  if (!directory) GTEST_SKIP() << "no MNIST in " << DDPBENCH_TEST_DATA_DIRECTORY;
  const auto source = open("mnist", {*directory});
  const std::vector<std::byte> decoded = open_and_decode(*directory);
  const Dataset dataset = Dataset::view(source->info(), decoded);
  EXPECT_EQ(dataset.train.count, 60000);
  EXPECT_EQ(dataset.test.count, 10000);
  // The published mean and deviation, and the class counts as LeCun's site lists them.
  EXPECT_NEAR(moments_of(dataset.train.images).mean, 0.1307, 5e-5);
  EXPECT_NEAR(moments_of(dataset.train.images).deviation, 0.3081, 5e-5);
  std::array<int, 10> counts{};
  for (const std::uint16_t label : dataset.train.labels) ++counts.at(label);
  EXPECT_THAT(counts,
              testing::ElementsAre(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949));
  EXPECT_THAT(dataset.train.labels.first(5), testing::ElementsAre(5, 0, 4, 1, 9));
}

TEST(OpenDataset, DecodesTheRealFashionMnist) {
  const auto directory = real_data_directory("fashion-mnist");
  if (!directory) GTEST_SKIP() << "no Fashion-MNIST in " << DDPBENCH_TEST_DATA_DIRECTORY;
  const auto source = open("fashion-mnist", {*directory});
  const std::vector<std::byte> decoded = open_and_decode(*directory, "fashion-mnist");
  const Dataset dataset = Dataset::view(source->info(), decoded);
  EXPECT_NEAR(moments_of(dataset.train.images).mean, 0.2860, 5e-5);
  EXPECT_NEAR(moments_of(dataset.train.images).deviation, 0.3530, 5e-5);
  std::array<int, 10> counts{};
  for (const std::uint16_t label : dataset.test.labels) ++counts.at(label);
  EXPECT_THAT(counts, testing::Each(1000));
}

}  // namespace
}  // namespace ddpbench::data
