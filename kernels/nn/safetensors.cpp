// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format (huggingface/safetensors, README "Format"): N, a 64-bit little-endian
// length; N bytes of JSON with each tensor's dtype, shape and data_offsets; the data, without gaps.
// The header is padded with spaces, so that the data start at a multiple of 8.
#include "kernels/nn/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/math.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::nn {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors is little-endian; on this machine values would have to be swapped");

constexpr std::size_t kLengthBytes = 8;
// The limit of the format's own reader.
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

bool is_integer(const NamedTensor& tensor) { return tensor.type == DataType::int64; }

// Reads one file and reports its errors.
class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), file_(open_file(path, {.what = "safetensors file "})) {}

  struct Entry : TensorInfo {
    std::uint64_t begin = 0, end = 0;  // within the data
  };

  // In the order of their data.
  std::vector<Entry> read_entries() {
    const nlohmann::json document = read_header();
    const std::string name = path_ + " (its header)";
    std::vector<Entry> entries;
    for (const auto& [key, value] : JsonReader(document, name).members("the header")) {
      if (key == kMetadataKey) {
        for (const auto& [word, text] : value.value().items()) {
          if (text.is_string()) metadata_[word] = text;
        }
      } else {
        entries.push_back(read_entry(key, value));
      }
    }
    std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
    expect_seamless(entries);
    return entries;
  }

  const Metadata& metadata() const { return metadata_; }  // after read_entries()

  NamedTensor read_values(const Entry& entry) {
    const std::string bytes = read_bytes(data_ + entry.begin, entry.end - entry.begin, entry.name);
    return tensor_of(entry, std::as_bytes(std::span(bytes)));
  }

 private:
  [[noreturn]] void fail(std::uint64_t offset, const std::string& message) const {
    throw ConfigError(
        fmt::format("{} is no valid safetensors file: at offset {}, {}", path_, offset, message));
  }

  std::string read_bytes(std::uint64_t offset, std::uint64_t count, std::string_view what) {
    const std::uint64_t behind = file_.bytes - std::min(offset, file_.bytes);
    if (count > behind) {
      fail(offset, fmt::format("expected {} bytes of {}, found {}", count, what, behind));
    }
    std::string bytes(count, '\0');
    for (std::uint64_t done = 0; done < count;) {
      const ssize_t got = ::pread(file_.descriptor.get(), bytes.data() + done, count - done,
                                  static_cast<off_t>(offset + done));
      if (got <= 0) fail(offset, fmt::format("reading {} bytes of {} failed", count, what));
      done += static_cast<std::uint64_t>(got);
    }
    return bytes;
  }

  nlohmann::json read_header() {
    std::uint64_t length = 0;
    std::memcpy(&length, read_bytes(0, kLengthBytes, "header length").data(), kLengthBytes);
    const std::string head = read_bytes(0, std::min(file_.bytes, kHeadBytes), "data");
    const std::string_view words = foreign_format(head);
    if (!words.empty() && !head.substr(kLengthBytes).starts_with('{')) {
      throw ConfigError(fmt::format("{}: expected safetensors, found {}", path_, words));
    }
    if (length > kLongestHeader) {
      fail(0,
           fmt::format("expected a header length of at most {}, found {}", kLongestHeader, length));
    }
    data_ = kLengthBytes + length;
    return parse_json(read_bytes(kLengthBytes, length, "header"), path_ + " (its header)",
                      {.most_bytes = kLongestHeader});
  }

  Entry read_entry(const std::string& name, const JsonReader& json) const {
    using enum DataType;
    static const std::map<std::string, DataType> kTypes = {
        {"F32", fp32}, {"F64", fp64}, {"F16", fp16}, {"BF16", bf16}, {"I64", int64}};
    // Fewer than 2^31 elements a tensor, the limit of a layer (layer_reader.cpp).
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
    json.expect_object("a tensor");
    const auto type = kTypes.find(json.at("dtype").string("dtype"));
    if (type == kTypes.end()) json.at("dtype").fail("dtype must be F32, F64, F16, BF16 or I64");
    Entry entry{{name, {}, type->second}};
    std::int64_t count = 1;
    for (const JsonReader& extent : json.at("shape").elements("shape")) {
      entry.shape.push_back(extent.integer("an extent", 0, kMost));
      count *= entry.shape.back();
      if (count > kMost) json.at("shape").fail(fmt::format("more than {} elements", kMost));
    }
    const std::vector<JsonReader> offsets = json.at("data_offsets").elements("data_offsets");
    if (offsets.size() != 2) json.at("data_offsets").fail("data_offsets must be [begin, end]");
    const std::int64_t begin = offsets[0].integer("begin", 0, kMostBytes);
    const std::int64_t bytes = offsets[1].integer("end", begin, kMostBytes) - begin;
    const std::int64_t expected = count * static_cast<std::int64_t>(size_of(entry.type));
    if (bytes != expected) {
      json.fail(fmt::format("expected {} bytes for the shape {}, found {}", expected,
                            ops::to_string(entry.shape), bytes));
    }
    entry.begin = static_cast<std::uint64_t>(begin);
    entry.end = static_cast<std::uint64_t>(begin + bytes);
    return entry;
  }

  // Each byte of the data belongs to one tensor.
  void expect_seamless(const std::vector<Entry>& entries) const {
    const std::uint64_t available = file_.bytes - data_;
    std::uint64_t next = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != next) {
        fail(data_ + entry.begin,
             fmt::format("expected \"{}\" to begin at {} of the data, found {}: tensors {}",
                         entry.name, next, entry.begin,
                         entry.begin < next ? "overlap" : "leave a gap"));
      }
      next = entry.end;
    }
    if (next != available) {
      fail(data_, fmt::format("expected {} bytes of data, found {}", next, available));
    }
  }

  std::string path_;
  OpenFile file_;
  std::uint64_t data_ = 0;  // where the data begin
  Metadata metadata_;
};

// The file itself, or those that an index names.
std::vector<std::string> weight_files(const std::string& path) {
  if (!path.ends_with(".json")) return {path};
  const JsonLimits limits{.most_bytes = kLongestHeader};
  const std::string text = read_file(path, {.what = "index ", .most_bytes = limits.most_bytes});
  const nlohmann::json index = parse_json(text, path, limits);
  std::set<std::string> files;
  for (const auto& [tensor, file] : JsonReader(index, path).at("weight_map").members("tensors")) {
    files.insert(std::filesystem::path(path).replace_filename(file.string("a file's name")));
  }
  return {files.begin(), files.end()};
}

}  // namespace

std::span<const std::byte> bytes_of(const NamedTensor& tensor) {
  return is_integer(tensor) ? std::as_bytes(std::span(tensor.integers))
                            : std::as_bytes(std::span(tensor.values));
}

NamedTensor tensor_of(const TensorInfo& info, std::span<const std::byte> bytes) {
  const bool integers = info.type == DataType::int64;
  NamedTensor tensor{info.name, info.shape, {}, integers ? info.type : DataType::fp32};
  const auto fill = [&](auto stored, auto& values) {
    values.resize(bytes.size() / sizeof(stored));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&stored, bytes.data() + i * sizeof(stored), sizeof(stored));
      values[i] = static_cast<std::ranges::range_value_t<decltype(values)>>(stored);
    }
  };
  if (integers) fill(std::int64_t{}, tensor.integers);
  if (info.type == DataType::fp32) fill(float{}, tensor.values);
  if (info.type == DataType::fp64) fill(double{}, tensor.values);
  if (info.type == DataType::fp16) fill(_Float16{}, tensor.values);
  if (info.type == DataType::bf16) fill(BFloat16{}, tensor.values);
  return tensor;
}

std::vector<TensorInfo> infos_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorInfo> infos;
  for (const NamedTensor& tensor : tensors) {
    infos.push_back({tensor.name, tensor.shape, tensor.type});
  }
  return infos;
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors, bool force,
                       const Metadata& metadata) {
  nlohmann::ordered_json header;
  header[kMetadataKey] = {{"format", "pt"}};
  for (const auto& [key, value] : metadata) header[kMetadataKey][key] = value;
  std::size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    ensure(!header.contains(tensor.name), "two tensors are called {}", tensor.name);
    const std::size_t bytes = bytes_of(tensor).size();
    const auto elements = static_cast<std::size_t>(ops::element_count(tensor.shape));
    ensure(elements * size_of(tensor.type) == bytes, "{} of shape {} has {} bytes", tensor.name,
           ops::to_string(tensor.shape), bytes);
    header[tensor.name] = {{"dtype", is_integer(tensor) ? "I64" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize(round_up(text.size(), 8), ' ');
  const std::uint64_t length = text.size();
  std::vector<std::span<const std::byte>> parts = {
      std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(text.data(), text.size()))};
  for (const NamedTensor& tensor : tensors) parts.push_back(bytes_of(tensor));
  write_file(path, parts, {.force = force});
}

std::vector<NamedTensor> read_safetensors(const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (const std::string& file : weight_files(path)) {
    Reader reader(file);
    for (const auto& entry : reader.read_entries()) tensors.push_back(reader.read_values(entry));
  }
  return tensors;
}

Metadata read_metadata(const std::string& path) {
  Reader reader(path);
  reader.read_entries();
  return reader.metadata();
}

std::vector<TensorInfo> read_tensor_infos(const std::string& path) {
  std::vector<TensorInfo> infos;
  for (const std::string& file : weight_files(path)) {
    std::ranges::copy(Reader(file).read_entries(), std::back_inserter(infos));
  }
  return infos;
}

}  // namespace ddpbench::nn
