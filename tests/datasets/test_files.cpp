// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/datasets/test_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "datasets/catalog.h"
#include "datasets/fetch.h"

namespace ddpbench::data {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (fs::temp_directory_path() / "ddpbench-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  fs::remove_all(path_, error);
}

void write_file(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  EXPECT_TRUE(file.flush().good()) << path;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  std::string input = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::optional<std::string> real_data_directory(const std::string& name) {
  const std::string directory = DDPBENCH_TEST_DATA_DIRECTORY;
  if (!fs::is_directory(fs::path(directory) / name)) return std::nullopt;
  return directory;
}

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

namespace {

std::string images_file(std::uint32_t count) {
  std::string bytes = big_endian(2051) + big_endian(count) + big_endian(28) + big_endian(28);
  for (std::uint32_t i = 0; i < count * 28 * 28; ++i) bytes += static_cast<char>(i * i % 251);
  return bytes;
}

std::string labels_file(std::uint32_t count) {
  std::string bytes = big_endian(2049) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>((i * 7 + 3) % 10);
  return bytes;
}

}  // namespace

SmallMnist::SmallMnist()
    : names{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte"},
      contents{images_file(5), labels_file(5), images_file(3), labels_file(3)} {}

void SmallMnist::write(const fs::path& directory, bool packed) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const fs::path path = directory / "mnist" / names[i];
    write_file(packed ? path.string() + ".gz" : path.string(),
               packed ? gzip(contents[i]) : contents[i]);
  }
}

std::vector<std::byte> open_and_decode(const fs::path& directory, const std::string& name) {
  const auto source = open_dataset({.name = name, .directories = {directory.string()}});
  std::vector<std::byte> decoded(source->info().decoded_bytes());
  source->decode(decoded);
  return decoded;
}

std::string error_of_decoding(const fs::path& directory) {
  try {
    open_and_decode(directory);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string sha256_of(const std::string& bytes) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "bytes", bytes);
  return file_sha256((directory.path() / "bytes").string());
}

static std::string octal(std::size_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; value /= 8) {
    text[i] = static_cast<char>('0' + value % 8);
  }
  return text;
}

std::string tar_member(const std::string& name, const std::string& contents, char type) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, octal(contents.size(), 11));
  header[156] = type;
  header.replace(148, 8, "        ");
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, octal(sum, 6) + '\0');
  return header + contents + std::string((512 - contents.size() % 512) % 512, '\0');
}

}  // namespace ddpbench::data
