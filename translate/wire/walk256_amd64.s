#include "go_asm.h"
#include "textflag.h"
#include "blocks_amd64.h"

// PARITY sets each bit of mask to the parity of all bits up to it.
#define PARITY(mask) \
	VMOVQ      mask, X5        \
	VPCMPEQB   X6, X6, X6      \
	VPCLMULQDQ $0, X6, X5, X5  \
	VMOVQ      X5, mask

// CONSTANTS also loads the masks of the block before. They are on the stack, where there are registers for the masks of one block only.
#define CONSTANTS \
	FILL($0x2020202020202020, AX, X0, Y0)   \
	FILL($0x5C5C5C5C5C5C5C5C, AX, X1, Y1)   \
	VBROADCASTI128 ·marks(SB), Y2            \
	FILL($0x2222222222222222, AX, X14, Y14) \
	MOVQ w+0(FP), AX                        \
	MOVQ (walk_last+0)(AX), CX              \
	MOVQ CX, opens-64(SP)                   \
	MOVQ (walk_last+8)(AX), CX              \
	MOVQ CX, colons-72(SP)                  \
	MOVQ (walk_last+16)(AX), CX             \
	MOVQ CX, commas-80(SP)                  \
	MOVQ (walk_last+24)(AX), CX             \
	MOVQ CX, tokens-88(SP)

#define KEEP \
	MOVQ opens-64(SP), AX        \
	MOVQ AX, (walk_last+0)(BX)   \
	MOVQ colons-72(SP), AX       \
	MOVQ AX, (walk_last+8)(BX)   \
	MOVQ commas-80(SP), AX       \
	MOVQ AX, (walk_last+16)(BX)  \
	MOVQ tokens-88(SP), AX       \
	MOVQ AX, (walk_last+24)(BX)

#define AHEAD(at)

// TAKE finds quotes, spaces and punctuation as maskBlocks does: R14 is the punctuation and R11 the spaces, also in strings, and
// R15 has quotes, colons and opening brackets, and other bytes.
#define TAKE \
	VMOVDQU  (SI), Y3           \
	VMOVDQU  32(SI), Y4         \
	VPOR     Y3, Y0, Y5         \
	VPOR     Y4, Y0, Y6         \
	VPSHUFB  Y3, Y2, Y7         \
	VPSHUFB  Y4, Y2, Y8         \
	VPCMPEQB Y5, Y7, Y5         \
	VPCMPEQB Y6, Y8, Y6         \
	MASK(Y5, Y6, R14)           \
	BIT(4, R11)                 \
	BIT(6, R15)                 \
	ANDNQ    R14, R11, AX       \
	ANDQ     R11, R14           \
	MOVQ     AX, R11            \
	ANDQ     R15, AX            \
	XORQ     AX, R11            \
	MOVQ     AX, quotes-48(SP)  \
	MOVQ     AX, DX             \
	PARITY(DX)                  \
	VPMINSB  Y3, Y4, Y5         \ // control characters and bytes beyond ASCII, as in textBlocks
	VPCMPGTB Y5, Y0, Y5         \
	VPCMPEQB Y3, Y1, Y6         \
	VPCMPEQB Y4, Y1, Y7         \
	VPOR     Y5, Y6, Y5         \
	VPOR     Y5, Y7, Y5         \
	VPTEST   Y5, Y5

// BEHIND moves each bit of a mask to the next byte. last has the mask of the block before, and then this one.
#define BEHIND(mask, last) \
	BTQ  $63, last  \
	MOVQ mask, last \
	ADCQ mask, mask

// NEIGHBORS knows the grammar by what is behind commas, colons and opening brackets: a value or a closing bracket is, and no comma.
// NAMES finds colons that are not behind a name, and the caller checks what is behind a scalar.
#define NEIGHBORS \
	ANDNQ R14, BX, R14          \ // punctuation
	ANDNQ R11, BX, R13          \ // white space is a fault
	MOVQ  BX, CX                \
	ORQ   AX, CX                \
	ORQ   R14, CX               \
	NOTQ  CX                    \ // scalars, and white space
	ANDQ  R14, R15              \
	BIT(1, R11)                 \
	ANDQ  R14, R11              \
	MOVQ  R11, brackets-56(SP)  \
	MOVQ  R11, DX               \
	ANDQ  R15, DX               \ // opening brackets
	XORQ  DX, R15               \ // colons
	XORQ  R11, R14              \
	XORQ  R15, R14              \ // commas
	XORQ  DX, R11               \ // closing brackets
	ANDNQ AX, BX, AX            \
	ORQ   DX, AX                \
	BEHIND(DX, opens-64(SP))    \
	BEHIND(R14, commas-80(SP))  \
	BEHIND(R15, colons-72(SP))  \
	ORQ   R14, R15              \
	ANDQ  R15, R11              \ // closing brackets behind a comma or colon
	ORQ   R11, R13              \
	ORQ   DX, R14               \
	MOVQ  R14, items-96(SP)     \
	ORQ   DX, R15               \ // behind commas, colons and opening brackets
	MOVQ  commas-80(SP), R11    \
	ANDQ  R15, R11              \ // commas there
	ORQ   R11, R13              \
	ANDNQ AX, R15, AX           \ // strings and containers elsewhere
	ORQ   AX, R13               \
	MOVQ  CX, R14               \
	BEHIND(CX, tokens-88(SP))   \
	ORQ   R15, CX               \
	ANDNQ R14, CX, CX           \ // scalars that begin elsewhere
	ORQ   CX, R13               \
	ANDQ  R15, R14              \
	MOVQ  quotes-48(SP), AX

// ITEMS also finds what is behind [, which is in no object.
#define ITEMS MOVQ items-96(SP), R15
#define FINDBRACKETS BRACKETS(R14)
#define BRACKETS(to) MOVQ brackets-56(SP), to
#define OPENING(to) MOVQ opens-64(SP), to
#define CURLY(to) MOVQ curly-104(SP), to
#define COLONS(to) MOVQ colons-72(SP), to
#define QUOTES(to) MOVQ quotes-48(SP), to
#define SETQUOTES(from) MOVQ from, quotes-48(SP)

#define KINDS \
	BIT(2, R11)              \
	MOVQ R11, curly-104(SP)  \
	OPENING(DX)

#define PLAIN \
	VMOVDQU  (SI), Y3    \
	VMOVDQU  32(SI), Y4  \
	VPMINSB  Y3, Y4, Y5  \
	VPCMPGTB Y5, Y0, Y5  \
	VPCMPEQB Y3, Y1, Y6  \
	VPCMPEQB Y4, Y1, Y7  \
	VPCMPEQB Y3, Y14, Y8 \
	VPCMPEQB Y4, Y14, Y9 \
	VPOR     Y6, Y7, Y6  \
	VPOR     Y8, Y9, Y8  \
	VPOR     Y5, Y6, Y5  \
	VPOR     Y5, Y8, Y5  \
	VPTEST   Y5, Y5

// BEYOND and BACKSLASHES add what they find to the white space, which is a fault outside of strings.
#define BEYOND \
	MOVQ R14, punctuation-112(SP)           \
	MOVQ R15, twos-120(SP)                  \
	MOVQ R11, space-128(SP)                 \
	FILL($0x0F0F0F0F0F0F0F0F, DX, X13, Y13) \
	MASK(Y3, Y4, AX)                        \
	ORQ  AX, space-128(SP)                  \
	VPCMPGTB Y3, Y0, Y5                     \
	VPCMPGTB Y4, Y0, Y6                     \
	MASK(Y5, Y6, R13)

#define BACKSLASHES \
	VPCMPEQB Y3, Y1, Y8         \
	VPCMPEQB Y4, Y1, Y9         \
	MASK(Y8, Y9, AX)            \
	ORQ      AX, space-128(SP)

#define UNSPECIAL \
	FILL($0x2222222222222222, R14, X14, Y14) \
	MOVQ punctuation-112(SP), R14            \
	MOVQ twos-120(SP), R15                   \
	MOVQ space-128(SP), R11

#define MALFORMED \
	FILL($0x6060606060606060, DX, X14, Y14) \
	FILL($0x7070707070707070, DX, X15, Y15) \
	TABLES                                  \
	XORL   AX, AX                           \
	FAULTS(Y3, 0, Y10)                      \
	FAULTS(Y4, 32, Y11)                     \
	VPOR   Y10, Y11, Y10                    \
	VPTEST Y10, Y10

#define BADESCAPES \
	UNESCAPABLE       \
	MASK(Y9, Y10, R15)

// func walkBlocks256(w *walk, p *byte, n int) int
TEXT ·walkBlocks256(SB), NOSPLIT, $128-32
#include "walk_amd64.h"
