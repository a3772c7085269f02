// Works with a list through the client that oapi-codegen makes of the OpenAPI document.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"liststore.example/check/api"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func expect(what string, seen, expected any) {
	if fmt.Sprint(seen) != fmt.Sprint(expected) {
		panic(fmt.Sprintf("%s: %v, expected %v", what, seen, expected))
	}
}

func main() {
	ctx, now := context.Background(), uint64(time.Now().UnixNano())
	client := must(api.NewClientWithResponses(os.Args[1]))
	feature := api.FeatureInput{EntityType: "user", Name: "go", ValueType: api.ValueTypeInt64, Ttl: "30d"}
	created := must(client.CreateFeatureWithResponse(ctx, nil, feature))
	expect("created", created.StatusCode(), 201)
	expect("the feature's name", created.JSON201.Name, "go")

	// Beyond 2^53, where a double would change it.
	value := int64(9007199254740993)
	items := api.AddItemsInput{Items: []api.ItemInput{{Timestamp: now, Value: value}}}
	added := must(client.AddItemsWithResponse(ctx, "user", "go", "a/b é", nil, items))
	expect("added", added.JSON200.Added, 1)

	// Go reads a number of unknown type as a double, so the value is read as digits.
	digits := api.GetItemsParamsInt64As("string")
	params := &api.GetItemsParams{Int64As: &digits}
	page := must(client.GetItemsWithResponse(ctx, "user", "go", "a/b é", params))
	stamp := time.Unix(0, int64(now)).UTC().Format("2006-01-02T15:04:05.000000000Z")
	expect("its value", page.JSON200.Items[0].Value, fmt.Sprint(value))
	expect("its item", page.JSON200.Items[0].Timestamp, stamp)

	var removal api.RemoveItemsInput
	if err := removal.FromRemoveValueInput(api.RemoveValueInput{Value: value}); err != nil {
		panic(err)
	}
	removed := must(client.RemoveItemsWithResponse(ctx, "user", "go", "a/b é", nil, removal))
	expect("removed", removed.JSON200.Removed, 1)
	missing := must(client.GetFeatureWithResponse(ctx, "user", "nothing", nil))
	expect("the problem's code", missing.ApplicationproblemJSON404.Code, api.FeatureNotFound)
	deleted := must(client.DeleteFeatureWithResponse(ctx, "user", "go", nil))
	expect("deleted", deleted.StatusCode(), 200)
}
