// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Works file by file: a file that is there and correct stays, the others are downloaded, by
// libcurl's easy interface in the calling thread, and checked while they arrive.
#include "datasets/fetch.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/shared_library.h"
#include "datasets/catalog.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

constexpr long kMostRedirects = 5;
constexpr auto kProgressInterval = std::chrono::seconds(2);
constexpr double kBytesPerMegabyte = 1e6;

// Throws ConfigError when the file cannot be read.
std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 sum;
  std::vector<char> buffer(std::size_t{1} << 18);
  while (file) {
    file.read(buffer.data(), std::ssize(buffer));
    sum.update(std::as_bytes(std::span(buffer).first(static_cast<std::size_t>(file.gcount()))));
  }
  if (!file.eof())
    throw ConfigError(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  return sum.finish();
}

// One file to download over HTTP.
struct Download {
  std::string url;   // http or https; redirects may use either
  std::string path;  // destination; its directory exists
  Fingerprint expected;
  double timeout_s = 60;                                  // limit to connect and between two bytes
  std::function<void(const std::string& line)> progress;  // may be empty
};

// libcurl, opened when something is downloaded: it brings 27 further libraries, and binding them
// took two fifths of every start of the program. It stays open: libraries behind it keep handlers
// that run when the process ends.
struct CurlLibrary {
  // Throws UnavailableError where the library is not there.
  CurlLibrary() {
    void* const library =
        open_library("libcurl.so.4", "downloads need libcurl (Debian's package libcurl4)");
    find(library, "curl_easy_init", easy_init);
    find(library, "curl_easy_setopt", easy_setopt);
    find(library, "curl_easy_perform", easy_perform);
    find(library, "curl_easy_getinfo", easy_getinfo);
    find(library, "curl_easy_strerror", easy_strerror);
    find(library, "curl_easy_cleanup", easy_cleanup);
  }

  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(find_in_library(library, name));
    if (function == nullptr) throw UnavailableError(fmt::format("libcurl has no {}", name));
  }
};

// A transfer and the library that makes it.
struct Curl {
  CurlLibrary library;
  std::unique_ptr<CURL, decltype(library.easy_cleanup)> handle{library.easy_init(),
                                                               library.easy_cleanup};
};

// Receives the bytes: writes, counts and hashes them.
class Receiver {
 public:
  explicit Receiver(const Download& download)
      : download_(download), file_(download.path, {.force = true, .one_writer = true}) {}

  // libcurl's write callback: any result other than `size` ends the transfer.
  static std::size_t on_bytes(char* data, std::size_t, std::size_t size, void* self) noexcept {
    auto& receiver = *static_cast<Receiver*>(self);
    try {
      receiver.receive(std::as_bytes(std::span(data, size)));
      return size;
    } catch (...) {
      receiver.failure_ = std::current_exception();
      return size == 0 ? 1 : 0;
    }
  }

  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  void finish() {
    if (received_ != download_.expected.bytes) disagree_about_size("");
    const std::string found = sum_.finish();
    if (found != download_.expected.sha256) {
      throw ConfigError(
          fmt::format("{}: expected SHA-256 {}, found {}; the download was corrupted, or the "
                      "server holds another "
                      "file",
                      download_.url, download_.expected.sha256, found));
    }
    file_.commit();
  }

 private:
  void receive(std::span<const std::byte> bytes) {
    received_ += bytes.size();
    if (received_ > download_.expected.bytes) disagree_about_size("at least ");
    file_.write(bytes);
    sum_.update(bytes);
    report();
  }

  [[noreturn]] void disagree_about_size(const char* prefix) const {
    throw ConfigError(fmt::format("{}: expected {} bytes, found {}{}", download_.url,
                                  download_.expected.bytes, prefix, received_));
  }

  void report() {
    const auto now = std::chrono::steady_clock::now();
    if (!download_.progress || now - reported_ < kProgressInterval) return;
    reported_ = now;
    download_.progress(
        fmt::format("{}: {:.1f} of {:.1f} MB", download_.path,
                    static_cast<double>(received_) / kBytesPerMegabyte,
                    static_cast<double>(download_.expected.bytes) / kBytesPerMegabyte));
  }

  const Download& download_;
  NewFile file_;
  Sha256 sum_;
  std::uint64_t received_ = 0;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
  std::exception_ptr failure_;
};

template <typename Value>
void set(const Curl& curl, CURLoption option, Value value) {
  const CURLcode code = curl.library.easy_setopt(curl.handle.get(), option, value);
  ensure(code == CURLE_OK, "libcurl refuses option {}: {}", static_cast<int>(option),
         curl.library.easy_strerror(code));
}

void configure(const Curl& curl, const Download& download, Receiver& receiver, char* error_text) {
  const long timeout_s = std::max(1L, std::lround(std::ceil(download.timeout_s)));
  set(curl, CURLOPT_URL, download.url.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");  // redirects must obey it, too
  set(curl, CURLOPT_FOLLOWLOCATION, 1L);
  set(curl, CURLOPT_MAXREDIRS, kMostRedirects);
  set(curl, CURLOPT_FAILONERROR, 1L);
  set(curl, CURLOPT_USERAGENT, "ddpbench");
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_CONNECTTIMEOUT, timeout_s);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(curl, CURLOPT_LOW_SPEED_TIME, timeout_s);
  set(curl, CURLOPT_ERRORBUFFER, error_text);
  set(curl, CURLOPT_WRITEFUNCTION, &Receiver::on_bytes);
  set(curl, CURLOPT_WRITEDATA, static_cast<void*>(&receiver));
}

void transfer(const Curl& curl, const Download& download, Receiver& receiver) {
  std::array<char, CURL_ERROR_SIZE> error_text{};
  configure(curl, download, receiver, error_text.data());
  const CURLcode code = curl.library.easy_perform(curl.handle.get());
  receiver.rethrow_failure();
  long status = 0;
  curl.library.easy_getinfo(curl.handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_HTTP_RETURNED_ERROR || (code == CURLE_OK && status != 200)) {
    throw UnavailableError(
        fmt::format("{}: the server answers with HTTP status {}", download.url, status));
  }
  if (code != CURLE_OK) {
    const char* text = error_text[0] != '\0' ? error_text.data() : curl.library.easy_strerror(code);
    throw UnavailableError(fmt::format("{}: download failed: {} (HTTP status {})", download.url,
                                       text, status == 0 ? "none" : fmt::to_string(status)));
  }
}

// Throws UnavailableError (network, HTTP status) or ConfigError (wrong size or checksum, disk).
// After an error the path is as it was before and no partial file is left.
void download_file(const Download& download) {
  const Curl curl;
  ensure(curl.handle != nullptr, "libcurl gives no handle");
  Receiver receiver(download);
  transfer(curl, download, receiver);
  receiver.finish();
}

FileState inspect(const fs::path& path, const Fingerprint& expected) {
  FileState state{.name = path.filename().string(), .path = path.string()};
  std::error_code error;
  state.present = fs::exists(path, error);
  if (!state.present || !fs::is_regular_file(path, error)) return state;
  state.bytes = fs::file_size(path, error);
  state.correct = state.bytes == expected.bytes && sha256_of_file(state.path) == expected.sha256;
  return state;
}

std::string published_name(const CatalogFile& file) {
  return std::string(file.name) + (file.has_packed() ? ".gz" : "");
}

const Fingerprint& published(const CatalogFile& file) {
  return file.has_packed() ? file.packed : file.unpacked;
}

// The state of the published form, or of the unpacked one when only that is there.
FileState inspect(const CatalogFile& file, const fs::path& directory) {
  const fs::path plain = directory / file.name;
  const FileState packed = inspect(directory / published_name(file), published(file));
  if (packed.present) return packed;
  const FileState unpacked = inspect(plain, file.unpacked);
  return unpacked.present ? unpacked : packed;
}

// A directory that is there while files are fetched into it. Takes away again those of its levels
// that it made and that are empty in the end, so that a failed download leaves none.
class MadeDirectory {
 public:
  // Throws ConfigError.
  explicit MadeDirectory(const fs::path& directory) {
    std::error_code error;
    for (fs::path level = directory; !level.empty() && !fs::exists(level, error);
         level = level.parent_path()) {
      made_.push_back(level);
    }
    fs::create_directories(directory, error);
    if (!error) return;
    remove_empty();
    throw ConfigError(
        fmt::format("cannot create {}: {}; --data-dir or DDPBENCH_DATA_DIR name another "
                    "place",
                    directory.string(), error.message()));
  }
  ~MadeDirectory() { remove_empty(); }
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

 private:
  // remove() refuses a directory that holds something, such as another process's download.
  void remove_empty() const noexcept {
    std::error_code ignored;
    for (const fs::path& level : made_) fs::remove(level, ignored);
  }

  std::vector<fs::path> made_;  // the deepest first
};

std::string url_of(const CatalogEntry& entry, const CatalogFile& file, const std::string& base) {
  std::string url = base.empty() ? std::string(entry.base_url) : base;
  if (!url.ends_with('/')) url += '/';
  return url + published_name(file);
}

void fetch_file(const Download& download, bool force) {
  const auto say = [&](const std::string& line) {
    if (download.progress) download.progress(line);
  };
  if (!force && inspect(fs::path(download.path), download.expected).correct) {
    say(fmt::format("{}: already there, {} bytes, SHA-256 as published", download.path,
                    download.expected.bytes));
    return;
  }
  say(fmt::format("{}: {} bytes from {}", download.path, download.expected.bytes, download.url));
  download_file(download);
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  ensure(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
         "OpenSSL offers no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  ensure(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 update");
}

std::string Sha256::finish() {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  ensure(EVP_DigestFinal_ex(context_.get(), digest.data(), &bytes) == 1, "SHA-256 final");
  std::string hexadecimal;
  for (unsigned i = 0; i < bytes; ++i) hexadecimal += fmt::format("{:02x}", digest[i]);
  return hexadecimal;
}

void fetch_files(const CatalogEntry& entry, const FetchOptions& options) {
  if (entry.files.empty()) {
    throw ConfigError(fmt::format(
        "data set {} has no files to fetch: its samples are drawn when it is used", entry.name));
  }
  if (options.directory.empty()) {
    throw ConfigError(
        fmt::format("no directory to put data set {} into: there is neither HOME nor "
                    "XDG_CACHE_HOME; --data-dir "
                    "or DDPBENCH_DATA_DIR name one",
                    entry.name));
  }
  const fs::path directory = fs::path(options.directory) / entry.name;
  const MadeDirectory made(directory);
  for (const CatalogFile& file : entry.files) {
    fetch_file({.url = url_of(entry, file, options.base_url),
                .path = (directory / published_name(file)).string(),
                .expected = published(file),
                .timeout_s = options.timeout_s,
                .progress = options.progress},
               options.force);
  }
}

std::vector<FileState> inspect_files(const CatalogEntry& entry, const std::string& directory) {
  std::vector<FileState> states;
  for (const CatalogFile& file : entry.files) {
    states.push_back(inspect(file, fs::path(directory) / entry.name));
  }
  return states;
}

void fetch_dataset(const std::string& name, const FetchOptions& options) {
  fetch_files(find_in_catalog(name), options);
}

// As the XDG Base Directory Specification requires, a relative XDG_CACHE_HOME is ignored.
std::string default_data_directory(const char* xdg_cache_home, const char* home) {
  if (xdg_cache_home != nullptr && xdg_cache_home[0] == '/') {
    return (fs::path(xdg_cache_home) / "ddpbench").string();
  }
  if (home == nullptr || home[0] == '\0') return "";
  return (fs::path(home) / ".cache" / "ddpbench").string();
}

}  // namespace ddpbench::data
