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
	feature := api.FeatureInput{EntityType: "user", Name: "go", ValueType: api.Int64, Ttl: "30d"}
	created := must(client.CreateFeatureWithResponse(ctx, nil, feature))
	expect("created", created.StatusCode(), 201)
	expect("the feature's name", created.JSON201.Name, "go")

	var timestamp api.ItemInput_Timestamp
	if err := timestamp.FromItemInputTimestamp1(now); err != nil {
		panic(err)
	}
	// Beyond 2^53, where a double would change it.
	value := int64(9007199254740993)
	items := api.AddItemsInput{Items: []api.ItemInput{{Timestamp: timestamp, Value: value}}}
	added := must(client.AddItemsWithResponse(ctx, "user", "go", "a/b é", nil, items))
	expect("added", added.JSON200.Added, 1)

	// The text is looked at, since Go reads a number of unknown type as a double.
	page := must(client.GetItemsWithResponse(ctx, "user", "go", "a/b é", nil))
	stamp := time.Unix(0, int64(now)).UTC().Format("2006-01-02T15:04:05.000000000Z")
	expect("the page", string(page.Body), fmt.Sprintf(`{"items":[{"timestamp":"%s","value":%d}]}`, stamp, value))
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
