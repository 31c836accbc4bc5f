// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Uses OpenSSL's EVP interface, which takes the processor's SHA instructions where it has them.
#include "datasets/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace ddpbench::data {

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

}  // namespace ddpbench::data
