// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Data sets as others lay them down: torchvision's folders, names as archives have them, relatives
// of MNIST; and what is said of files that lie where none of this is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "datasets/catalog.h"
#include "datasets/fetch.h"
#include "datasets/readers.h"
#include "tests/datasets/test_files.h"

namespace ddpbench::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace fs = std::filesystem;

class Places : public testing::Test {
 protected:
  // The four files of a small MNIST in `folder`, in which they have these names.
  void lay(const std::string& folder, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      write_file(directory_.path() / folder / names[i], mnist_.contents[i]);
    }
  }
  std::unique_ptr<DatasetSource> open(const std::string& name, const std::string& below = "") {
    return open_dataset({.name = name,
                         .directories = {(directory_.path() / below).string()},
                         .synthesize_when_missing = true});
  }
  std::string refusal(const std::string& name, const std::string& below = "") {
    try {
      open(name, below);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  std::string path(const std::string& below) const { return (directory_.path() / below).string(); }

  SmallMnist mnist_;
  TemporaryDirectory directory_;
};

TEST_F(Places, AreTorchvisionsFoldersFromAnyOfTheirParents) {
  lay("data/FashionMNIST/raw", mnist_.names);
  lay("data/KMNIST/raw", mnist_.names);
  lay("data/MNIST/raw", mnist_.names);
  write_file(path("data/MNIST/raw/train-labels-idx1-ubyte.gz"), "passed over");
  for (const std::string below :
       {"data", "data/", "data/MNIST", "data/MNIST/raw", "data/./MNIST/raw/"}) {
    const auto source = open("mnist", below);
    EXPECT_EQ(source->info().source, "files") << below;
    EXPECT_TRUE(fs::equivalent(source->info().directory, path("data/MNIST/raw"))) << below;
    EXPECT_EQ(source->info().train_samples, 5);
  }
  EXPECT_EQ(open("fashion-mnist", "data")->info().directory, path("data/FashionMNIST/raw"));
  EXPECT_EQ(open("kmnist", "data/KMNIST/raw")->info().directory, path("data/KMNIST/raw"));
  lay("data/mnist", mnist_.names);
  EXPECT_EQ(open("mnist", "data")->info().directory, path("data/mnist"));
}

TEST_F(Places, MayHoldDottedNamesBesideFoldersOfTheOthers) {
  lay("mnist", {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte",
                "t10k-labels.idx1-ubyte"});
  for (const std::string& name : mnist_.names) fs::create_directories(path("mnist/" + name));
  EXPECT_EQ(open("mnist")->info().test_samples, 3);
  fs::rename(path("mnist/t10k-labels.idx1-ubyte"), path("mnist/t10k-labels.idx1-ubyte.gz"));
  EXPECT_EQ(open("mnist")->info().test_samples, 3);
}

TEST_F(Places, HoldEmnistsPartsByTheirNames) {
  const auto names = [](const std::string& part) {
    const std::string train = "emnist-" + part + "-train-", test = "emnist-" + part + "-test-";
    return std::vector<std::string>{train + "images-idx3-ubyte", train + "labels-idx1-ubyte",
                                    test + "images-idx3-ubyte", test + "labels-idx1-ubyte"};
  };
  mnist_.contents[1].back() = 26;  // Z
  for (const std::string folder : {"EMNIST/raw", "emnist", "gzip", "."}) {
    lay(folder, names("letters"));
    const std::vector<std::byte> decoded = open_and_decode(directory_.path(), "emnist-letters");
    const DatasetInfo info = open("emnist-letters")->info();
    EXPECT_EQ(Dataset::view(info, decoded).train.labels.back(), 26) << folder;
    EXPECT_EQ(info.classes, 27);
    fs::remove_all(directory_.path() / (folder == "." ? "EMNIST" : folder));
  }
  lay("EMNIST/raw", names("digits"));
  const std::vector<std::byte> digits = open_and_decode(directory_.path(), "emnist-digits");
  EXPECT_THAT([&] { Dataset::view(open("emnist-digits")->info(), digits).check_labels(); },
              ThrowsMessage<ConfigError>(HasSubstr("has the label 26; labels are 0 to 9")));
  EXPECT_THAT(refusal("emnist-balanced"),
              AllOf(HasSubstr("emnist-balanced was not found"), HasSubstr("torchvision")));
}

// A label is a row of 8 integers: the class, and where the digit comes from.
std::string qmnist_labels(const std::vector<int>& classes, std::uint32_t columns = 8) {
  std::string bytes = big_endian(0x0c02) + big_endian(static_cast<std::uint32_t>(classes.size())) +
                      big_endian(columns);
  for (const int one : classes) {
    bytes += big_endian(static_cast<std::uint32_t>(one));
    for (std::uint32_t i = 1; i < columns; ++i) bytes += big_endian(2578 + i);
  }
  return bytes;
}

TEST_F(Places, HoldQmnistWithItsIntegersAsLabels) {
  const std::vector<std::string> names = {
      "qmnist-train-images-idx3-ubyte", "qmnist-train-labels-idx2-int",
      "qmnist-test-images-idx3-ubyte", "qmnist-test-labels-idx2-int"};
  mnist_.contents[1] = qmnist_labels({5, 0, 4, 1, 9});
  mnist_.contents[3] = qmnist_labels({7, 2, 1});
  lay("QMNIST/raw", names);
  const std::vector<std::byte> decoded = open_and_decode(directory_.path(), "qmnist");
  const Dataset dataset = Dataset::view(open("qmnist")->info(), decoded);
  EXPECT_THAT(dataset.train.labels, ElementsAre(5, 0, 4, 1, 9));
  EXPECT_THAT(dataset.test.labels, ElementsAre(7, 2, 1));
  for (const std::uint32_t columns : {1U, 7U, 9U}) {
    write_file(path("QMNIST/raw/" + names[3]), qmnist_labels({7, 2, 1}, columns));
    EXPECT_THAT(refusal("qmnist"), HasSubstr("expected 108 bytes for the 3 labels")) << columns;
  }
}

TEST_F(Places, ThatAreOthersAreNamedInsteadOfDrawnImages) {
  for (const std::string folder : {".", "my digits", "a/b"}) {
    lay(folder, mnist_.names);
    EXPECT_THAT(refusal("mnist"),
                AllOf(HasSubstr("train-images-idx3-ubyte is not read: put mnist's binary files"),
                      HasSubstr("into " + path("mnist")), HasSubstr("--dataset=synthetic")))
        << folder;
    for (const std::string& name : mnist_.names) fs::remove(directory_.path() / folder / name);
  }
  EXPECT_EQ(open("mnist")->info().source, "synthetic");
  write_file(path("datasets/mnist.npz"), "");
  EXPECT_THAT(refusal("mnist"), HasSubstr("mnist.npz is not read"));
  fs::remove_all(path("datasets"));
  // Names that several data sets share are those of the one whose folder it is.
  lay("FashionMNIST/raw", mnist_.names);
  EXPECT_EQ(open("mnist")->info().source, "synthetic");
  EXPECT_EQ(open("mnist", "FashionMNIST/")->info().source, "synthetic");
}

TEST_F(Places, OfPythonsFormOfCifarAreExplained) {
  for (const std::string name :
       {"cifar-10-batches-py/test_batch", "cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"}) {
    write_file(path(name), "\x80\4pickle");
    EXPECT_THAT(refusal("cifar10"),
                AllOf(HasSubstr(path(name.substr(0, name.find('/'))) + " is not read"),
                      HasSubstr("no pickles"), HasSubstr("`ddpbench data fetch cifar10`")));
    fs::remove_all(path(name.substr(0, name.find('/'))));
  }
  write_file(path("cifar-10-batches-py/batches.meta"), "");
  EXPECT_THAT(refusal("cifar10", "cifar-10-batches-py"), HasSubstr("batches.meta is not read"));
  fs::remove_all(path("cifar-10-batches-py"));
  write_file(path("my/test_batch.bin"), "");
  EXPECT_THAT(refusal("cifar10"), HasSubstr(path("my/test_batch.bin") + " is not read"));
}

TEST_F(Places, MayBeTheFolderOfCifarsArchiveItself) {
  const std::string record(3073, '\2');
  write_file(path("cifar-10-batches-bin/data_batch_1.bin"), record);
  write_file(path("cifar-10-batches-bin/test_batch.bin"), record);
  for (const std::string below : {"", "cifar-10-batches-bin"}) {
    EXPECT_EQ(open("cifar10", below)->info().directory, path("cifar-10-batches-bin"));
  }
  write_file(path("cifar-10-batches-bin/test_batch.bin"), "<!DOCTYPE html>");
  EXPECT_THAT(refusal("cifar10"), AllOf(HasSubstr("test_batch.bin: expected records of 3073 bytes"),
                                        HasSubstr("found a web page")));
}

TEST(Fetch, SaysWhoDownloadsWhatItDoesNot) {
  EXPECT_THAT(
      [] {
        fetch_files(find_in_catalog("kmnist"),
                    {.directory = "/nowhere", .base_url = "", .progress = {}});
      },
      ThrowsMessage<ConfigError>(
          HasSubstr("kmnist has no files to fetch: torchvision downloads it")));
}

}  // namespace
}  // namespace ddpbench::data
