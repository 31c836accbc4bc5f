// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpbench {
namespace {

TEST(SharedLibrary, HasTheFunctionsOfTheOneThatIsOpened) {
  void* const library = open_library("libm.so.6", "no mathematics");
  const auto cosine = reinterpret_cast<double (*)(double)>(find_in_library(library, "cos"));
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(find_in_library(library, "no_such_function"), nullptr);
}

TEST(SharedLibrary, ThatIsNotThereIsRefusedInTheLoadersWords) {
  try {
    open_library("/no/such/library.so", "the module cannot be opened");
    FAIL() << "it was opened";
  } catch (const UnavailableError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(
                                  "the module cannot be opened: /no/such/library.so: cannot open"));
  }
}

}  // namespace
}  // namespace ddpbench
