// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The file format: a written file is read back, and all damage is noticed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "kernels/nn/safetensors.h"

namespace ddpbench::nn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Has a folder that is removed with its files.
class Safetensors : public ::testing::Test {
 protected:
  Safetensors()
      : folder_(fs::temp_directory_path() /
                ("ddpbench_nn_" +
                 std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string content(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + data;
  }
  void write_content(const std::string& name, const std::string& header, const std::string& data) {
    std::ofstream(path(name), std::ios::binary) << content(header, data);
  }
  // Writes a file with this header and `data_bytes` of data, reads it, and returns the error.
  std::string error_of(const std::string& header, std::size_t data_bytes) {
    return error_of_content(content(header, std::string(data_bytes, 'x')));
  }
  std::string error_of_content(const std::string& content) {
    std::ofstream(path("damaged"), std::ios::binary) << content;
    try {
      read_safetensors(path("damaged"));
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path("damaged")));
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

std::vector<NamedTensor> some_tensors() {
  return {{"a.weight", {2, 3}, {1, 2, 3, 4, 5, -0.0f}},
          {"a.bias", {1}, {7.5f}},
          {"empty", {0, 4}, {}},
          {"scalar", {}, {3}}};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Safetensors, ReadsBackWhatItWrote) {
  write_safetensors(path("w.safetensors"), some_tensors(), false);
  const std::vector<NamedTensor> read = read_safetensors(path("w.safetensors"));
  ASSERT_EQ(read.size(), 4u);
  for (const NamedTensor& expected : some_tensors()) {
    const auto found = std::find_if(read.begin(), read.end(),
                                    [&](const NamedTensor& t) { return t.name == expected.name; });
    ASSERT_NE(found, read.end()) << expected.name;
    EXPECT_EQ(found->shape, expected.shape);
    EXPECT_EQ(found->values, expected.values);
  }
}

TEST_F(Safetensors, WritesTheFormatByteForByte) {
  write_safetensors(path("w.safetensors"), {{"b", {2}, {1, 2}}}, false);
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string content = content_of(path("w.safetensors"));
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_EQ(content.size(), 8 + padded + 8);
  EXPECT_EQ(static_cast<unsigned char>(content[0]), padded);
  EXPECT_EQ(content.substr(1, 7), std::string(7, '\0'));
  EXPECT_EQ(content.substr(8, header.size()), header);
  EXPECT_EQ(content.substr(8 + header.size(), padded - header.size()),
            std::string(padded - header.size(), ' '));
  EXPECT_EQ(content.substr(8 + padded), std::string("\0\0\x80\x3f\0\0\0\x40", 8));
}

TEST_F(Safetensors, ReplacesAFileOnlyWhenForcedAndLeavesNothingElse) {
  write_safetensors(path("w"), {{"b", {2}, {1, 2}}}, false);
  EXPECT_THROW(write_safetensors(path("w"), {{"c", {1}, {3}}}, false), ConfigError);
  EXPECT_EQ(read_safetensors(path("w"))[0].name, "b");
  write_safetensors(path("w"), {{"c", {1}, {3}}}, true);
  EXPECT_EQ(read_safetensors(path("w"))[0].name, "c");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Safetensors, NamesThePathThatItCannotWrite) {
  try {
    write_safetensors(path("no/such/folder/w"), {}, false);
    FAIL() << "written";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path("no/such/folder/w")));
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

TEST_F(Safetensors, NamesAFileThatIsNotThere) {
  EXPECT_THROW(read_safetensors(path("absent")), ConfigError);
}

TEST_F(Safetensors, DoesNotWaitForTheWriterOfAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  try {
    read_safetensors(path("pipe"));
    FAIL() << "was read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("regular file"));
  }
}

TEST_F(Safetensors, KeepsMetadata) {
  write_safetensors(path("file"), {{"a", {1}, {2}}}, false, {{"step", "7"}});
  EXPECT_EQ(read_metadata(path("file")), (Metadata{{"format", "pt"}, {"step", "7"}}));
  EXPECT_EQ(read_safetensors(path("file"))[0].values, std::vector<float>{2});
}

// A process that is killed while it saves leaves the older file or the newer one, each whole.
TEST_F(Safetensors, IsWholeWheneverItsWriterIsKilled) {
  constexpr std::int64_t kElements = 300'000;
  const auto save = [&](int version) {
    const std::vector<float> values(kElements, static_cast<float>(version));
    write_safetensors(path("file"), {{"a", {kElements}, values}}, true,
                      {{"version", std::to_string(version)}});
  };
  const auto begin = std::chrono::steady_clock::now();
  save(0);
  const std::chrono::duration<double, std::micro> whole = std::chrono::steady_clock::now() - begin;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> moment_us(0, 1.3 * whole.count());
  constexpr int kKills = 50, kMost = 500;
  int newer = 0, killed = 0, version = 1;
  for (int last = 0; killed < kKills && version <= kMost; ++version) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      save(version);
      ::_exit(0);
    }
    if (version % 10 != 0) {  // every tenth may end
      ::usleep(static_cast<useconds_t>(moment_us(random)));
      ::kill(writer, SIGKILL);
    }
    int status = 0;
    ::waitpid(writer, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;  // else it had ended before
    const int found = std::stoi(read_metadata(path("file")).at("version"));
    EXPECT_TRUE(found == version || found == last) << found;
    const std::vector<float> values = read_safetensors(path("file"))[0].values;
    EXPECT_EQ(std::ranges::count(values, static_cast<float>(found)), kElements);
    newer += found == version ? 1 : 0;
    last = found;
  }
  EXPECT_EQ(killed, kKills);
  EXPECT_GE(newer, 5);
  EXPECT_LT(newer, version - 1);
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  write_safetensors(path("w"), some_tensors(), false);
  const std::string whole = content_of(path("w"));
  EXPECT_EQ(error_of_content(whole), "");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of_content(whole.substr(0, length)), "") << "cut at " << length;
  }
}

TEST_F(Safetensors, SaysWhereATruncationBegins) {
  EXPECT_THAT(error_of_content("1234"),
              HasSubstr("at offset 0, expected 8 bytes of header length, found 4"));
  EXPECT_THAT(error_of_content(std::string("\x10\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("at offset 8, expected 16 bytes of header, found 2"));
  const std::string header = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  EXPECT_THAT(error_of(header, 5),
              AllOf(HasSubstr("at offset " + std::to_string(8 + header.size())),
                    HasSubstr("expected 16 bytes of data, found 5")));
}

TEST_F(Safetensors, RefusesAHugeHeaderLength) {
  EXPECT_THAT(error_of_content(std::string(8, '\xff') + "{}"),
              HasSubstr("at offset 0, expected a header length of at most 100000000, found "
                        "18446744073709551615"));
}

TEST_F(Safetensors, RefusesAHeaderThatIsNoJsonObject) {
  EXPECT_THAT(error_of("{]", 0), HasSubstr("(its header): not valid JSON: line 1, column 2"));
  EXPECT_THAT(error_of("[]", 0), HasSubstr("the header must be an object, found []"));
}

TEST_F(Safetensors, RefusesAHeaderWithoutFollowingItsNesting) {
  EXPECT_THAT(error_of(std::string(120000, '['), 0), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(error_of(R"({"a":)" + std::string(120000, '[') + std::string(120000, ']') + "}", 0),
              HasSubstr("nested deeper than 16 levels"));
}

TEST_F(Safetensors, RefusesAHeaderThatReadersWouldReadDifferently) {
  const std::string tensor = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(error_of("{" + tensor + "," + tensor + "}", 4),
              HasSubstr("the key \"a\" is there twice"));
  EXPECT_THAT(error_of("{" + tensor + "}" + std::string(1, '\0') + "{}", 4),
              HasSubstr("a NUL byte"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"a":1e999}})", 0), HasSubstr("1e999"));
}

// 1, -2.5 and the smallest numbers above 0 in the bits of each type.
TEST_F(Safetensors, ConvertsOtherFloatsAsTheyAreRead) {
  struct Case {
    std::string dtype, data;
    DataType type;
    std::vector<float> values;
  };
  using namespace std::string_literals;
  const Case cases[] = {
      {"BF16", "\x80\x3f\x20\xc0\x01\0"s, DataType::bf16, {1, -2.5f, 0x1p-133f}},
      {"F16", "\0\x3c\0\xc1\x01\0\0\x7c"s, DataType::fp16, {1, -2.5f, 0x1p-24f, HUGE_VALF}},
      {"F64", "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\x04\xc0"s, DataType::fp64, {1, -2.5f}}};
  for (const Case& one : cases) {
    const std::string count = std::to_string(one.values.size());
    write_content("w",
                  R"({"a":{"dtype":")" + one.dtype + R"(","shape":[)" + count +
                      R"(],"data_offsets":[0,)" + std::to_string(one.data.size()) + "]}}",
                  one.data);
    EXPECT_EQ(read_tensor_infos(path("w"))[0].type, one.type);
    const NamedTensor read = read_safetensors(path("w"))[0];
    EXPECT_EQ(read.type, DataType::fp32);
    EXPECT_EQ(read.values, one.values) << one.dtype;
  }
}

TEST_F(Safetensors, ReadsAllFilesOfAnIndex) {
  write_safetensors(path("model-00001-of-00002.safetensors"), {{"a", {2}, {1, 2}}}, false);
  write_safetensors(path("model-00002-of-00002.safetensors"), {{"b", {1}, {3}}, {"c", {1}, {4}}},
                    false);
  const std::string index = path("model.safetensors.index.json");
  std::ofstream(index) << R"({"metadata": {"total_size": 16}, "weight_map": {
      "b": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors",
      "c": "model-00002-of-00002.safetensors"}})";
  const std::vector<NamedTensor> read = read_safetensors(index);
  EXPECT_EQ(infos_of(read), read_tensor_infos(index));
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].name, "a");
  EXPECT_THAT(read[2].values, ::testing::ElementsAre(4));
  fs::remove(path("model-00001-of-00002.safetensors"));
  EXPECT_THAT(
      [&] { read_safetensors(index); },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr(path("model-00001-of-00002.safetensors"))));
  std::ofstream(index) << R"({"name": "resnet18", "layers": []})";
  EXPECT_THAT([&] { read_safetensors(index); }, ::testing::ThrowsMessage<ConfigError>(AllOf(
                                                    HasSubstr(index), HasSubstr("weight_map"))));
}

TEST_F(Safetensors, NamesWhatAnotherFileIs) {
  using namespace std::string_literals;
  EXPECT_THAT(error_of_content("PK\3\4\0\0\x08\x08\0\0\0\0archive/data.pkl"s),
              HasSubstr("expected safetensors, found a zip archive; if torch.save wrote it, use "
                        "safetensors.torch.save_file"));
  EXPECT_THAT(error_of_content("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s),
              HasSubstr("a Python pickle"));
  EXPECT_THAT(error_of_content("version https://git-lfs.github.com/spec/v1\n"),
              HasSubstr("a Git LFS pointer; `git lfs pull` gets the file"));
  EXPECT_THAT(error_of_content("\r\n <html><head>"), HasSubstr("a web page"));
  EXPECT_THAT(error_of_content("\x1f\x8b\x08\0\0\0\0\0\0\xff"s),
              HasSubstr("a gzip file; unpack it"));
}

// Its length is a pickle's first bytes.
TEST_F(Safetensors, ReadsAFileThatBeginsAsAPickleDoes) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(error_of(header + std::string(0x280 - header.size(), ' '), 4), "");
}

TEST_F(Safetensors, RefusesOtherDataTypes) {
  EXPECT_THAT(error_of(R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("/a/dtype: dtype must be F32, F64, F16, BF16 or I64"));
  EXPECT_THAT(error_of(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("/a: the key \"dtype\" is missing"));
  EXPECT_THAT(error_of(R"({"a":7})", 0), HasSubstr("found 7"));
}

TEST_F(Safetensors, RefusesBadShapesAndOffsets) {
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(error_of(tensor("[1]", "[0,4]"), 4), "");
  EXPECT_THAT(error_of(tensor("[-1]", "[0,4]"), 4), HasSubstr("/a/shape/0: an extent"));
  EXPECT_THAT(error_of(tensor("3", "[0,12]"), 12), HasSubstr("/a/shape: shape must be an array"));
  EXPECT_THAT(error_of(tensor("[65536,65536]", "[0,4]"), 4),
              HasSubstr("more than 2147483647 elements"));
  EXPECT_THAT(error_of(tensor("[18446744073709551615,2]", "[0,4]"), 4),
              HasSubstr("/a/shape/0: an extent"));
  EXPECT_THAT(error_of(tensor("[1]", "[4,0]"), 4), HasSubstr("/a/data_offsets/1: end must be"));
  EXPECT_THAT(error_of(tensor("[1]", "[0]"), 4), HasSubstr("[begin, end]"));
  EXPECT_THAT(error_of(tensor("[1]", "\"x\""), 4), HasSubstr("/a/data_offsets: data_offsets must"));
  EXPECT_THAT(error_of(tensor("[3]", "[0,8]"), 8),
              HasSubstr("/a: expected 12 bytes for the shape [3], found 8"));
  EXPECT_THAT(error_of(tensor("[1]", "[8,12]"), 12), HasSubstr("leave a gap"));
  EXPECT_THAT(error_of(tensor("[1]", "[0,4]"), 9), HasSubstr("expected 4 bytes of data, found 9"));
}

TEST_F(Safetensors, RefusesOverlappingTensors) {
  EXPECT_THAT(
      error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
               12),
      AllOf(HasSubstr("expected \"b\" to begin at 8 of the data, found 4"), HasSubstr("overlap")));
}

TEST_F(Safetensors, RefusesTwoTensorsOfOneNameOnWriting) {
  EXPECT_THROW(write_safetensors(path("w"), {{"a", {1}, {1}}, {"a", {1}, {2}}}, false),
               InternalError);
}

}  // namespace
}  // namespace ddpbench::nn
