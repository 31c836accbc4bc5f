// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Works file by file: a file that is there and correct stays, the others are downloaded, by
// libcurl's easy interface in the calling thread, and checked.
#include "datasets/fetch.h"

#include <curl/curl.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"
#include "base/shared_library.h"
#include "datasets/catalog.h"
#include "datasets/readers.h"

namespace ddpbench::data {
namespace {

namespace fs = std::filesystem;

// A tar archive (POSIX.1-1988 "ustar"): a header of 512 bytes precedes each file, whose contents
// are filled up to the next multiple of 512. Blocks of zeros end the archive.
constexpr std::uint64_t kTarBlock = 512;
struct TarMember {
  std::string name;
  std::uint64_t bytes = 0;
};

// Reads a member's header; nothing at the archive's end.
std::optional<TarMember> next_member(FileBytes& archive) {
  std::array<char, kTarBlock> header{};
  const std::size_t n =
      archive.read({reinterpret_cast<std::uint8_t*>(header.data()), header.size()});
  if (n < header.size() || header[0] == '\0') return std::nullopt;
  const std::string_view name(header.data(), 100), size(header.data() + 124, 11);
  TarMember member{.name = std::string(name.substr(0, name.find('\0')))};
  std::from_chars(size.data(), size.data() + size.size(), member.bytes, 8);
  return member;
}

// libcurl, opened when something is downloaded: it brings 27 further libraries, and binding them
// took two fifths of every start of the program. It stays open: libraries behind it keep handlers
// that run when the process ends.
struct CurlLibrary {
  // Throws UnavailableError where the library is not there.
  CurlLibrary() {
    void* const library =
        open_library("libcurl.so.4", "downloads need libcurl (Debian's package libcurl4)");
    const auto find = [library](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          find_in_library(library, name));
      if (function == nullptr) throw UnavailableError(fmt::format("libcurl has no {}", name));
    };
    find("curl_easy_init", easy_init);
    find("curl_easy_setopt", easy_setopt);
    find("curl_easy_perform", easy_perform);
    find("curl_easy_getinfo", easy_getinfo);
    find("curl_easy_cleanup", easy_cleanup);
  }

  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
};

// One file on its way: its bytes are written and counted as they arrive, and hashed at the end.
class Download {
 public:
  // `path`: the destination, whose directory exists. `progress` may be empty.
  Download(std::string url, const std::string& path, const Fingerprint& expected,
           const std::function<void(const std::string& line)>& progress)
      : url_(std::move(url)),
        path_(path),
        expected_(expected),
        progress_(progress),
        file_(path, {.force = true, .one_writer = true, .resume = true}) {}

  // Throws UnavailableError (network, HTTP status) or ConfigError (wrong size or checksum, disk).
  // After an error the path is as it was before. What arrived before a connection broke stays
  // beside it and the next download goes on from there; where that proves wrong, from the start.
  void run(double timeout_s) {
    if (file_.written() > expected_.bytes) file_.restart();
    for (bool resumes = file_.written() > 0;; resumes = false) {
      try {
        if (file_.written() != expected_.bytes) {
          transfer(std::max(1L, std::lround(std::ceil(timeout_s))));
        }
        return finish();
      } catch (const ConfigError&) {
        file_.restart();
        failure_ = nullptr;
        if (!resumes) throw;
      }
    }
  }

 private:
  void finish() {
    if (file_.written() != expected_.bytes) disagree_about_size("", file_.written());
    const std::string found = file_sha256(file_.part().string());
    if (found != expected_.sha256) {
      throw ConfigError(fmt::format(
          "{}: expected SHA-256 {}, found {}; the download was corrupted, or the server holds "
          "another file",
          url_, expected_.sha256, found));
    }
    file_.commit();
  }

  void transfer(long timeout_s) {
    const CurlLibrary library;
    const std::unique_ptr<CURL, decltype(library.easy_cleanup)> curl(library.easy_init(),
                                                                     library.easy_cleanup);
    ensure(curl != nullptr, "libcurl gives no handle");
    const auto set = [&](CURLoption option, auto value) {
      ensure(library.easy_setopt(curl.get(), option, value) == CURLE_OK,
             "libcurl refuses option {}", static_cast<int>(option));
    };
    std::array<char, CURL_ERROR_SIZE> error_text{};
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");  // redirects must obey it, too
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_USERAGENT, "ddpbench");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, timeout_s);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, timeout_s);
    set(CURLOPT_ERRORBUFFER, error_text.data());
    set(CURLOPT_WRITEFUNCTION, &Download::on_bytes);
    set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    const auto start = static_cast<curl_off_t>(file_.written());
    set(CURLOPT_RESUME_FROM_LARGE, start);
    const CURLcode code = library.easy_perform(curl.get());
    if (failure_) std::rethrow_exception(failure_);
    long status = 0;
    library.easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && (status == 200 || status == 206)) return;
    if (start > 0 && (code == CURLE_RANGE_ERROR || status == 416))
      throw ConfigError(fmt::format("{}: the server does not send the rest of a file", url_));
    throw UnavailableError(
        fmt::format("{}: download failed: {} (HTTP status {})", url_, error_text.data(), status));
  }

  // libcurl's write callback: any result other than `size` ends the transfer.
  static std::size_t on_bytes(char* data, std::size_t, std::size_t size, void* self) noexcept {
    auto& download = *static_cast<Download*>(self);
    try {
      download.receive(std::as_bytes(std::span(data, size)));
      return size;
    } catch (...) {
      download.failure_ = std::current_exception();
      return size == 0 ? 1 : 0;
    }
  }

  void receive(std::span<const std::byte> bytes) {
    const std::uint64_t received = file_.written() + bytes.size();
    if (received > expected_.bytes) disagree_about_size("at least ", received);
    file_.write(bytes);
    const auto now = std::chrono::steady_clock::now();
    if (!progress_ || now - reported_ < std::chrono::seconds(2)) return;
    reported_ = now;
    progress_(fmt::format("{}: {:.1f} of {:.1f} MB", path_, 1e-6 * static_cast<double>(received),
                          1e-6 * static_cast<double>(expected_.bytes)));
  }

  [[noreturn]] void disagree_about_size(const char* prefix, std::uint64_t found) const {
    throw ConfigError(
        fmt::format("{}: expected {} bytes, found {}{}", url_, expected_.bytes, prefix, found));
  }

  const std::string url_, path_;
  const Fingerprint expected_;
  const std::function<void(const std::string& line)>& progress_;
  NewFile file_;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
  std::exception_ptr failure_;
};

FileState inspect(const fs::path& path, const Fingerprint& expected) {
  FileState state{.name = path.filename().string(), .path = path.string()};
  std::error_code error;
  state.present = fs::exists(path, error);
  if (!state.present || !fs::is_regular_file(path, error)) return state;
  state.bytes = fs::file_size(path, error);
  state.correct = state.bytes == expected.bytes && file_sha256(state.path) == expected.sha256;
  return state;
}

// The archive's contents are as published, so that its names lead nowhere else.
void unpack(const CatalogEntry& entry, const fs::path& directory) try {
  const fs::path folder = directory / entry.unpacks_to, part = folder.string() + ".part";
  const std::string inside = fmt::format("{}/", entry.unpacks_to);
  fs::remove_all(part);
  FileBytes archive((directory / entry.files[0].name).string());
  std::vector<std::uint8_t> contents;
  while (const auto member = next_member(archive)) {
    contents.resize(round_up(member->bytes, kTarBlock));
    archive.read(contents);
    if (!member->name.starts_with(inside) || member->name.ends_with('/')) continue;
    const fs::path path = part / member->name.substr(inside.size());
    fs::create_directories(path.parent_path());
    const auto bytes = std::as_bytes(std::span(contents).first(member->bytes));
    write_file(path.string(), std::span(&bytes, 1), {.force = true, .durable = false});
  }
  fs::remove_all(folder);
  fs::rename(part, folder);
} catch (const fs::filesystem_error& error) {
  throw ConfigError(fmt::format("cannot unpack {}: {}", entry.name, error.what()));
}

}  // namespace

std::string file_sha256(const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  ensure(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
         "OpenSSL offers no SHA-256");
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(std::size_t{1} << 18);
  while (file) {
    file.read(buffer.data(), std::ssize(buffer));
    const auto bytes = static_cast<std::size_t>(file.gcount());
    ensure(EVP_DigestUpdate(context.get(), buffer.data(), bytes) == 1, "SHA-256 update");
  }
  if (!file.eof())
    throw ConfigError(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  ensure(EVP_DigestFinal_ex(context.get(), digest.data(), &bytes) == 1, "SHA-256 final");
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(bytes), ""));
}

void fetch_files(const CatalogEntry& entry, const FetchOptions& options) {
  if (entry.base_url.empty() && options.base_url.empty()) {
    throw ConfigError(fmt::format(
        "data set {} has no files to fetch: {}", entry.name,
        entry.files.empty() ? "its samples are drawn when it is used" : how_to_get(entry)));
  }
  if (options.directory.empty()) {
    throw ConfigError(fmt::format(
        "no directory to put data set {} into: there is neither HOME nor XDG_CACHE_HOME; "
        "--data-dir or DDPBENCH_DATA_DIR name one",
        entry.name));
  }
  const fs::path directory = fs::path(options.directory) / entry.name;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw ConfigError(
        fmt::format("cannot create {}: {}; --data-dir or DDPBENCH_DATA_DIR name another place",
                    directory.string(), error.message()));
  }
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  std::string base = options.base_url.empty() ? std::string(entry.base_url) : options.base_url;
  if (!base.ends_with('/')) base += '/';
  const fs::path unpacked = directory / entry.unpacks_to;
  bool unpacks = !entry.unpacks_to.empty() && (options.force || !is_folder(unpacked));
  for (const CatalogFile& file : entry.files) {
    const FileState there = inspect(directory / file.name, file.print);
    if (there.correct && !options.force) {
      say(fmt::format("{}: already there, {} bytes, SHA-256 as published", there.path,
                      file.print.bytes));
      continue;
    }
    const std::string url = base + there.name;
    say(fmt::format("{}: {} bytes from {}", there.path, file.print.bytes, url));
    Download(url, there.path, file.print, options.progress).run(options.timeout_s);
    unpacks = !entry.unpacks_to.empty();
  }
  if (!unpacks) return;
  say(fmt::format("{}: unpacking", unpacked.string()));
  unpack(entry, directory);
}

std::vector<FileState> inspect_files(const CatalogEntry& entry, const std::string& directory) {
  const std::vector<fs::path> places = places_of(entry, directory);
  const auto found = std::ranges::find_if(places, is_folder);
  const fs::path place = found == places.end() ? places[0] : *found;
  std::vector<FileState> states;
  for (const CatalogFile& file : entry.files) {
    if (file.print.bytes > 0) states.push_back(inspect(place / file.name, file.print));
  }
  return states;
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
