"""Solves a Laplacian of one dimension by conjugate gradients."""

from petsc4py import PETSc

size = 200
matrix = PETSc.Mat().createAIJ([size, size], nnz=3)
first, end = matrix.getOwnershipRange()
for row in range(first, end):
    matrix[row, row] = 2.0
    if row > 0:
        matrix[row, row - 1] = -1.0
    if row < size - 1:
        matrix[row, row + 1] = -1.0
matrix.assemble()
solution, right = matrix.createVecs()
right.set(1.0)
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.solve(right, solution)
PETSc.Sys.Print(f"{solver.getIterationNumber()} iterations, norm {solution.norm():.6f}")
