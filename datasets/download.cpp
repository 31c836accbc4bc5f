// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Uses libcurl's easy interface in the calling thread. Exceptions do not cross libcurl's C frames:
// they are stored and rethrown afterwards.
#include "datasets/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "datasets/curl_library.h"
#include "datasets/sha256.h"

namespace ddpbench::data {
namespace {

constexpr long kMostRedirects = 5;
constexpr auto kProgressInterval = std::chrono::seconds(2);
constexpr double kBytesPerMegabyte = 1e6;

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

}  // namespace

void download_file(const Download& download) {
  const Curl curl;
  ensure(curl.handle != nullptr, "libcurl gives no handle");
  Receiver receiver(download);
  transfer(curl, download, receiver);
  receiver.finish();
}

}  // namespace ddpbench::data
