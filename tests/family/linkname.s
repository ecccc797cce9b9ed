// This file lets plugins.go declare a function without a body.
